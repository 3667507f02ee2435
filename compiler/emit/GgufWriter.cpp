#include "compiler/emit/GgufWriter.h"

#include "compiler/import/gguf/Gguf.h"
#include "compiler/weights/InOrder.h"
#include "compiler/weights/WeightRows.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Text.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace mlir;

namespace g4::emit {
namespace {

// Tensors go to the file in pieces of about this size: large enough for the disk, small beside any model.
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kVersion = 3, kUint32 = 4, kString = 8; // of the format; value types of metadata
constexpr uint32_t kQuantizationVersion = 2;                // of the block layouts; ggml has had no other since 2023

/// llama.cpp's number for a file whose matrices are mostly of this type.
std::optional<uint32_t> fileType(gguf::Type type) {
  using enum gguf::Type;
  switch (type) {
  case kF32: return 0;
  case kF16: return 1;
  case kQ4_0: return 2;
  case kQ4_1: return 3;
  case kQ8_0: return 7;
  case kQ5_0: return 8;
  case kQ5_1: return 9;
  case kQ4_K: return 15;
  case kQ5_K: return 17;
  case kQ6_K: return 18;
  case kIQ4_NL: return 25;
  case kBF16: return 32;
  case kMXFP4: return 38;
  default: return std::nullopt;
  }
}

template <class T> void put(std::string &to, T value) { to.append(reinterpret_cast<const char *>(&value), sizeof value); }
void putString(std::string &to, StringRef text) {
  put<uint64_t>(to, text.size());
  to += text;
}

/// A tensor of the new file.
struct Output {
  const gguf::File *file;
  const gguf::Tensor *tensor;
  gguf::WeightOp converted;  ///< null: copied
  uint64_t firstRow = 0;     ///< of the weight, when converted: per-expert tensors are parts of one
  gguf::Type type{};
  uint64_t size = 0, offset = 0; ///< offset from the start of the tensors' bytes
};

class GgufWriter {
public:
  GgufWriter(ModuleOp module, const GgufOptions &options) : module(module), options(options) {}

  Status run() {
    G4_ASSIGN_OR_RETURN(rows, weights::WeightRows::open(module));
    for (auto name : module->getAttrOfType<ArrayAttr>(gguf::kFilesAttr).getAsRange<StringAttr>()) {
      G4_ASSIGN_OR_RETURN(std::unique_ptr<gguf::File> file, gguf::File::open(name.str(), {}));
      files.push_back(std::move(file));
    }
    findConverted();
    G4_RETURN_IF_ERROR(place());
    G4_ASSIGN_OR_RETURN(file, AtomicFile::create(options.output));
    std::string head = header();
    head.resize(alignTo(head.size(), alignment));
    tensorsBegin = head.size();
    G4_RETURN_IF_ERROR(file->writeAt(0, std::as_bytes(std::span(head))));
    for (const Output &output : outputs)
      G4_RETURN_IF_ERROR(output.converted ? convert(output) : copy(output));
    // The last tensor is padded like the others.
    if (uint64_t padded = alignTo(end, alignment); padded > end) {
      std::vector<std::byte> zeros(padded - end);
      G4_RETURN_IF_ERROR(file->writeAt(tensorsBegin + end, zeros));
    }
    return file->commit();
  }

private:
  static uint64_t alignTo(uint64_t size, uint64_t to) { return (size + to - 1) / to * to; }

  /// Where converted weights, and scales that go into them, lie in the files.
  void findConverted() {
    SymbolTable symbols(module);
    for (auto weight : module.getOps<gguf::WeightOp>()) {
      if (!weight.getStored())
        continue;
      uint64_t row = 0;
      for (auto extent : weight.getExtents().getAsRange<gguf::ExtentAttr>()) {
        converted[{extent.getFile(), extent.getOffset()}] = {weight, row};
        row += extent.getSize() / weight.getStoredRowBytes();
      }
      if (auto scale = weight.getScaleAttr() ? symbols.lookup<gguf::WeightOp>(*weight.getScale()) : gguf::WeightOp())
        for (auto extent : scale.getExtents().getAsRange<gguf::ExtentAttr>())
          dropped.insert({extent.getFile(), extent.getOffset()});
      StringRef stem = weight.getSymName();
      stem.consume_back(".weight");
      droppedNames.insert((stem + ".input_scale").str()); // what the old type was to multiply activations with
    }
  }

  /// The new file's tensors and where they go.
  Status place() {
    if (auto own = files.front()->getUint("general.alignment"))
      alignment = *own;
    for (auto [index, from] : llvm::enumerate(files))
      for (const gguf::Tensor &tensor : from->tensors()) {
        std::pair<int64_t, int64_t> at(index, tensor.offset);
        if (dropped.contains(at) || droppedNames.contains(tensor.name))
          continue;
        const gguf::TypeInfo *info = gguf::typeInfo(tensor.ggmlType);
        if (!info)
          return invalidArgument("tensor " + quotedName(tensor.name) + " has type " + std::to_string(tensor.ggmlType) +
                                 ", whose size is not known");
        Output output{from.get(), &tensor, {}};
        if (auto found = converted.find(at); found != converted.end()) {
          output.converted = found->second.first;
          output.firstRow = found->second.second;
          info = gguf::typeInfo(static_cast<uint32_t>(output.converted.getMatrixType().getElement()));
        }
        output.type = info->type;
        output.size = tensor.rows() * (tensor.columns() / info->blockElements) * info->blockBytes;
        output.offset = alignTo(end, alignment);
        end = output.offset + output.size;
        outputs.push_back(output);
      }
    return {};
  }

  std::optional<uint32_t> newFileType() const {
    std::map<gguf::Type, uint64_t> elements;
    for (const Output &output : outputs)
      if (StringRef(output.tensor->name).starts_with("blk.") && output.tensor->rows() > 1)
        elements[output.type] += output.tensor->rows() * output.tensor->columns();
    auto most = std::max_element(elements.begin(), elements.end(), [](auto &a, auto &b) { return a.second < b.second; });
    return most == elements.end() ? std::nullopt : fileType(most->first);
  }

  std::string header() const {
    // Entries that replace the source's, in its place, or go to the end.
    std::vector<std::pair<std::string, std::string>> changes;
    auto change = [&](StringRef key, uint32_t type, const std::string &value) {
      std::string entry;
      putString(entry, key);
      put(entry, type);
      changes.push_back({key.str(), entry + value});
    };
    auto changeUint = [&](StringRef key, uint32_t number) {
      std::string value;
      put(value, number);
      change(key, kUint32, value);
    };
    if (!converted.empty()) {
      if (auto type = newFileType())
        changeUint("general.file_type", *type);
      changeUint("general.quantization_version", kQuantizationVersion);
      if (auto path = module->getAttrOfType<StringAttr>(gguf::kImatrixAttr)) {
        std::string name; // not the path: it says nothing to others
        putString(name, llvm::sys::path::filename(path.getValue()));
        change("quantize.imatrix.file", kString, name);
      }
    }
    std::string entries;
    uint64_t count = 0;
    const gguf::File &first = *files.front();
    for (auto [index, entry] : llvm::enumerate(first.metadata())) {
      const std::string &key = entry.first;
      if (StringRef(key).starts_with("split."))
        continue; // of a file in parts, which this is not
      ++count;
      auto changed = llvm::find_if(changes, [&](auto &c) { return c.first == key; });
      if (changed == changes.end()) {
        std::span<const std::byte> bytes = first.metadataBytes(index);
        entries.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
        continue;
      }
      entries += changed->second;
      changes.erase(changed);
    }
    for (auto &[key, entry] : changes) {
      entries += entry;
      ++count;
    }
    std::string head = "GGUF";
    put(head, kVersion);
    put<uint64_t>(head, outputs.size());
    put<uint64_t>(head, count);
    head += entries;
    for (const Output &output : outputs) {
      putString(head, output.tensor->name);
      put<uint32_t>(head, output.tensor->dims.size());
      for (uint64_t dim : output.tensor->dims)
        put(head, dim);
      put(head, static_cast<uint32_t>(output.type));
      put(head, output.offset);
    }
    return head;
  }

  Status write(uint64_t offset, std::span<const std::byte> bytes) {
    G4_RETURN_IF_ERROR(file->writeAt(tensorsBegin + offset, bytes));
    if (options.progress)
      options.progress(offset + bytes.size(), end);
    return {};
  }

  Status copy(const Output &output) {
    std::span<const std::byte> bytes = output.file->data(*output.tensor);
    for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes)
      G4_RETURN_IF_ERROR(write(output.offset + at, bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at))));
    output.file->releasePages(*output.tensor);
    return {};
  }

  Status convert(const Output &output) {
    uint64_t count = output.tensor->rows(), rowBytes = output.size / count;
    uint64_t batch = std::max<uint64_t>(kPieceBytes / rowBytes, 1);
    auto make = [&](uint64_t i, std::vector<std::byte> &piece) {
      std::vector<uint64_t> indices(std::min(batch, count - i * batch));
      std::iota(indices.begin(), indices.end(), output.firstRow + i * batch);
      std::vector<weights::WeightRows::Row> places;
      return rows->read(output.converted, indices, places, piece);
    };
    return weights::inOrder((count + batch - 1) / batch, make, [&](uint64_t i, std::span<const std::byte> piece) {
      return write(output.offset + i * batch * rowBytes, piece);
    });
  }

  ModuleOp module;
  const GgufOptions &options;
  std::unique_ptr<weights::WeightRows> rows;
  std::vector<std::unique_ptr<gguf::File>> files;
  llvm::DenseMap<std::pair<int64_t, int64_t>, std::pair<gguf::WeightOp, uint64_t>> converted; ///< by file, offset
  llvm::DenseSet<std::pair<int64_t, int64_t>> dropped;
  llvm::StringSet<> droppedNames;
  std::vector<Output> outputs;
  uint64_t alignment = 32, tensorsBegin = 0, end = 0;
  std::unique_ptr<AtomicFile> file;
};

} // namespace

LogicalResult writeGguf(ModuleOp module, const GgufOptions &options) {
  Status status = GgufWriter(module, options).run();
  if (!status.ok())
    return emitError(UnknownLoc::get(module.getContext())) << status.message();
  return success();
}

} // namespace g4::emit
