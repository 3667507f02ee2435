#include "compiler/reference/WeightReader.h"

#include "compiler/quants/Dequantize.h"
#include "runtime/base/Text.h"

using namespace mlir;

namespace g4::reference {

Result<WeightReader> WeightReader::open(ModuleOp module) {
  auto paths = module->getAttrOfType<ArrayAttr>(gguf::kFilesAttr);
  if (!paths)
    return invalidArgument("the module does not name its GGUF files in 'gguf.files'");
  WeightReader reader;
  for (Attribute path : paths) {
    auto name = dyn_cast<StringAttr>(path);
    if (!name)
      return invalidArgument("'gguf.files' holds something else than paths");
    G4_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(name.str()));
    reader.files_.push_back(std::move(file));
  }
  return std::move(reader);
}

Status WeightReader::readRow(gguf::WeightOp weight, int64_t row, std::span<float> out) const {
  gguf::MatrixType type = weight.getMatrixType();
  uint64_t rowBytes = type.getRowBytes(), at = row * rowBytes;
  if (row < 0 || row >= type.getRows())
    return internalError("row " + std::to_string(row) + " of " + quotedName(weight.getSymName()));
  for (auto extent : weight.getExtents().getAsRange<gguf::ExtentAttr>()) {
    uint64_t size = extent.getSize(), offset = extent.getOffset();
    if (at >= size) { // a later expert's tensor
      at -= size;
      continue;
    }
    size_t file = static_cast<size_t>(extent.getFile());
    std::span<const std::byte> bytes;
    if (file < files_.size())
      bytes = files_[file].bytes();
    if (offset > bytes.size() || at + rowBytes > bytes.size() - offset)
      return invalidArgument("the data of tensor " + quotedName(weight.getSymName()) + " is not in the file");
    if (!quants::dequantize(static_cast<gguf::Type>(type.getElement()), bytes.subspan(offset + at, rowBytes), out))
      return invalidArgument("the evaluator cannot read " +
                             gguf::stringifyElementType(type.getElement()).str());
    float factor = weight.getFactorOrOne();
    if (factor != 1.0f)
      for (float &value : out)
        value *= factor;
    return {};
  }
  return internalError("extents of " + quotedName(weight.getSymName()));
}

} // namespace g4::reference
