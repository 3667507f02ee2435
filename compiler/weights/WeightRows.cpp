#include "compiler/weights/WeightRows.h"

#include "compiler/quants/Dequantize.h"
#include "compiler/quants/Quantize.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace g4::weights {

Result<std::unique_ptr<WeightRows>> WeightRows::open(ModuleOp module) {
  auto paths = module->getAttrOfType<ArrayAttr>(gguf::kFilesAttr);
  if (!paths || paths.empty())
    return invalidArgument("the module does not name its GGUF files in 'gguf.files'");
  std::unique_ptr<WeightRows> weights(new WeightRows(module));
  for (Attribute path : paths) {
    auto name = dyn_cast<StringAttr>(path);
    if (!name)
      return invalidArgument("'gguf.files' holds something else than paths");
    G4_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(name.str()));
    weights->files_.push_back(std::move(file));
  }
  if (auto path = module->getAttrOfType<StringAttr>(gguf::kImatrixAttr)) {
    G4_ASSIGN_OR_RETURN(weights->imatrix_, quants::Imatrix::open(path.str()));
  }
  return weights;
}

Result<std::vector<std::span<const std::byte>>> WeightRows::piecesOf(gguf::WeightOp weight) const {
  std::vector<std::span<const std::byte>> pieces;
  for (auto extent : weight.getExtents().getAsRange<gguf::ExtentAttr>()) {
    std::span<const std::byte> bytes;
    if (uint64_t file = extent.getFile(); file < files_.size())
      bytes = files_[file].bytes();
    uint64_t offset = extent.getOffset(), size = extent.getSize();
    if (offset > bytes.size() || size > bytes.size() - offset)
      return invalidArgument("the data of tensor " + quotedName(weight.getSymName()) + " is not in the file");
    pieces.push_back(bytes.subspan(offset, size));
  }
  return pieces;
}

std::span<const std::byte> WeightRows::Source::row(uint64_t index) const {
  uint64_t at = index * storedBytes;
  for (std::span<const std::byte> piece : pieces) {
    if (at < piece.size())
      return piece.subspan(at, storedBytes);
    at -= piece.size();
  }
  return {};
}

std::vector<std::span<const std::byte>> WeightRows::Source::ranges(std::span<const uint64_t> rows) const {
  std::vector<std::span<const std::byte>> out;
  for (uint64_t index : rows) {
    std::span<const std::byte> next = row(index);
    if (!out.empty() && out.back().data() + out.back().size() == next.data())
      out.back() = {out.back().data(), out.back().size() + next.size()};
    else
      out.push_back(next);
  }
  return out;
}

Result<WeightRows::Source> WeightRows::sourceOf(gguf::WeightOp weight) const {
  gguf::MatrixType type = weight.getMatrixType();
  Source source{weight.getSymName().str(),
                {},
                {1.0f},
                uint64_t(type.getRows()),
                uint64_t(type.getColumns()),
                uint64_t(weight.getStoredRowBytes()),
                uint64_t(type.getRowBytes()),
                static_cast<gguf::Type>(weight.getStoredElement()),
                static_cast<gguf::Type>(type.getElement())};
  G4_ASSIGN_OR_RETURN(source.pieces, piecesOf(weight));
  auto scale = weight.getScaleAttr() ? symbols_.lookup<gguf::WeightOp>(*weight.getScale()) : gguf::WeightOp();
  if (!scale)
    return source;
  G4_ASSIGN_OR_RETURN(std::vector<std::span<const std::byte>> pieces, piecesOf(scale));
  source.scales.clear();
  for (std::span<const std::byte> piece : pieces)
    for (uint64_t at = 0; at + sizeof(float) <= piece.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, piece.data() + at, sizeof value);
      if (!std::isfinite(value))
        return invalidArgument("tensor " + quotedName(scale.getSymName()) + " holds a scale that is not finite");
      source.scales.push_back(value);
    }
  return source;
}

Status WeightRows::convert(const Source &source, uint64_t row, std::span<std::byte> out) const {
  std::vector<float> values(source.columns);
  const std::string &name = source.name;
  if (!quants::dequantize(source.stored, source.row(row), values))
    return invalidArgument("tensor " + quotedName(name) + " has a type that cannot be converted");
  if (float scale = source.scale(row); scale != 1.0f)
    for (float &value : values)
      value *= scale;
  std::span<const float> importance;
  if (imatrix_) {
    G4_ASSIGN_OR_RETURN(importance, imatrix_->columns(name, row, source.rows, source.columns));
  }
  if (!quants::quantize(source.type, values, importance, out))
    return invalidArgument("row " + std::to_string(row) + " of tensor " + quotedName(name) +
                           " holds a value that cannot be converted: NaN, infinite or too large");
  return {};
}

Status WeightRows::read(gguf::WeightOp weight, std::span<const uint64_t> rows, std::vector<Row> &out,
                        std::vector<std::byte> &buffer) const {
  G4_ASSIGN_OR_RETURN(Source source, sourceOf(weight));
  for (uint64_t row : rows)
    if (row >= source.rows)
      return internalError("row " + std::to_string(row) + " of " + quotedName(weight.getSymName()));
  for (std::span<const std::byte> range : source.ranges(rows))
    for (const MappedFile &file : files_)
      if (!file.load(range))
        return {Code::kDataLoss, "tensor " + quotedName(source.name) + " cannot be read: " + errnoText(EIO)};
  out.clear();
  if (!weight.getStored()) {
    for (uint64_t row : rows)
      out.push_back({source.row(row).data(), source.scale(row)});
    return {};
  }
  buffer.resize(rows.size() * source.bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    auto converted = std::span(buffer).subspan(i * source.bytes, source.bytes);
    G4_RETURN_IF_ERROR(convert(source, rows[i], converted));
    out.push_back({converted.data(), 1.0f});
  }
  return {};
}

void WeightRows::release(gguf::WeightOp weight, std::span<const uint64_t> rows) const {
  if (auto source = sourceOf(weight); source.ok())
    for (std::span<const std::byte> range : source->ranges(rows))
      for (const MappedFile &file : files_)
        file.release(range);
}

Status WeightRows::readValues(gguf::WeightOp weight, uint64_t row, std::span<float> out) const {
  G4_ASSIGN_OR_RETURN(Source source, sourceOf(weight));
  if (row >= source.rows)
    return internalError("row " + std::to_string(row) + " of " + quotedName(weight.getSymName()));
  std::vector<std::byte> converted;
  std::span<const std::byte> bytes = source.row(row);
  float factor = weight.getFactorOrOne();
  if (weight.getStored()) {
    converted.resize(source.bytes);
    G4_RETURN_IF_ERROR(convert(source, row, converted));
    bytes = converted;
  } else {
    factor *= source.scale(row);
  }
  if (!quants::dequantize(source.type, bytes, out))
    return invalidArgument("tensor " + quotedName(weight.getSymName()) + " has a type that cannot be read");
  if (factor != 1.0f)
    for (float &value : out)
      value *= factor;
  return {};
}

} // namespace g4::weights
