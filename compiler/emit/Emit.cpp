#include "compiler/emit/Emit.h"
#include "compiler/emit/Header.h"
#include "compiler/emit/Packer.h"
#include "compiler/emit/Plan.h"
#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "compiler/import/gguf/Gguf.h"
#include "compiler/weights/WeightRows.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/exec/Signature.h"
#include "runtime/module/Writer.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace g4::emit {
namespace fb = module::fb;
namespace {

// Packed weights go to the file in pieces of about this size: large enough for the disk, small beside any model.
constexpr uint64_t kPieceBytes = 4 << 20;

class Emitter {
public:
  Emitter(ModuleOp module, ArrayRef<CodeVariant> code, const EmitOptions &options)
      : module(module), code(code), options(options), symbols(module) {}

  LogicalResult run() {
    if (failed(openFiles()))
      return failure();
    auto writer = module::Writer::create(options.output);
    if (!writer.ok())
      return report(writer.status());
    fb::ModuleT header;
    header.producer = options.producer;
    header.weights_missing = options.weightsMissing;
    if (failed(writeWeights(**writer)) || failed(writeCode(**writer, header)) || failed(writeTokenizer(**writer)))
      return failure();
    if (failed(fillHeader(header)))
      return failure();
    if (Status s = (*writer)->finish(header); !s.ok())
      return report(s);
    return success();
  }

  FailureOr<Plan> plan() {
    Plan out;
    std::vector<std::byte> tables;
    if (failed(openFiles()) || failed(makeTokenizer(tables)) || failed(fillHeader(out.header)))
      return failure();
    collectPlaces();
    out.weightBytes = total;
    out.tokenizerBytes = tables.size();
    return out;
  }

private:
  LogicalResult fillHeader(fb::ModuleT &header) {
    std::vector<const gguf::File *> open;
    for (auto &f : files)
      open.push_back(f.get());
    return buildHeader(module, open, header);
  }

  /// A status names its file itself.
  LogicalResult report(const Status &status) {
    return emitError(UnknownLoc::get(module.getContext())) << status.message();
  }

  LogicalResult openFiles() {
    auto names = module->getAttrOfType<ArrayAttr>("gguf.files");
    if (!names || names.empty())
      return module.emitError("names no GGUF files (attribute gguf.files)");
    for (auto name : names.getAsRange<StringAttr>()) {
      auto file = gguf::File::open(name.getValue().str(), {.allowMissingData = options.weightsMissing});
      if (!file.ok())
        return report(file.status());
      files.push_back(*std::move(file));
    }
    if (options.weightsMissing)
      return success();
    auto opened = weights::WeightRows::open(module);
    if (!opened.ok())
      return report(opened.status());
    source = *std::move(opened);
    return success();
  }

  /// The weight that `op` stores rows of, and which, in order.
  LogicalResult rowsOf(exec::WeightOp op, gguf::WeightOp &weight, std::vector<uint64_t> &indices) {
    auto part = cast<gguf::PartAttr>(op.getPart());
    weight = symbols.lookup<gguf::WeightOp>(part.getWeight().getValue());
    if (!weight)
      return op.emitOpError("reads ") << part.getWeight() << ", which is not a weight of this module";
    int64_t experts = part.getRows() ? op.getMatrix().getRows() / part.getRows() : 0;
    for (int64_t e = 0; e < experts; ++e)
      for (int64_t r = 0; r < part.getRows(); ++r)
        indices.push_back(e * part.getStride() + part.getFirst() + r);
    for (uint64_t row : indices)
      if (row >= uint64_t(weight.getMatrixType().getRows()))
        return op.emitOpError("reads row ") << row << " of " << part.getWeight() << ", which has fewer";
    return success();
  }

  using Row = weights::WeightRows::Row;

  /// Appends rows to `piece` as `op` stores them.
  LogicalResult packRows(exec::WeightOp op, ArrayRef<Row> rows, float factor, std::vector<std::byte> &piece) {
    exec::MatrixAttr matrix = op.getMatrix();
    const module::PackedLayout &layout = gguf::getPackedLayout(matrix.getElement());
    uint64_t columns = matrix.getColumns();
    auto extend = [&](uint64_t n) {
      piece.resize(piece.size() + n);
      return std::span(piece).last(n);
    };
    uint64_t tableBytes = exec::tableRowBytes(matrix.getElement(), columns);
    for (size_t r = 0; r < rows.size();) {
      switch (op.getStorage()) {
      case exec::Storage::table: {
        Row row = rows[r++];
        auto to = extend(tableBytes);
        if (layout.groupHeaderBytes()) {
          std::memcpy(to.last(4).data(), &row.scale, 4);
          to = to.first(tableBytes - 4);
        }
        std::memcpy(to.data(), row.bytes, to.size());
        break;
      }
      case exec::Storage::vector: {
        if (!layout.isFloat)
          return op.emitOpError("is a vector of ") << gguf::stringifyElementType(matrix.getElement()) << ", expected f32, f16 or bf16";
        auto to = extend(columns * 4);
        widenRow(layout, columns, rows[r++].bytes, factor, reinterpret_cast<float *>(to.data()));
        break;
      }
      case exec::Storage::packed: {
        std::array<const std::byte *, 16> group{};
        std::array<float, 16> rowScales = kNoRowScales;
        for (size_t i = 0; i < 16 && r < rows.size(); ++i, ++r) {
          group[i] = rows[r].bytes;
          rowScales[i] = rows[r].scale;
        }
        packGroup(layout, columns, group, extend(layout.groupBytes(columns)), rowScales);
      }
      }
    }
    return success();
  }

  LogicalResult packOne(module::Writer &writer, exec::WeightOp op) {
    gguf::WeightOp weight;
    std::vector<uint64_t> indices;
    if (failed(rowsOf(op, weight, indices)))
      return failure();
    std::vector<Row> rows;
    std::vector<std::byte> converted, piece;
    // Whole groups of 16 rows.
    uint64_t batch = std::max<uint64_t>(kPieceBytes / (16 * sizeof(float) * op.getMatrix().getColumns()), 1) * 16;
    for (uint64_t first = 0; first < indices.size(); first += batch) {
      auto some = std::span(indices).subspan(first, std::min<uint64_t>(batch, indices.size() - first));
      if (Status s = source->read(weight, some, rows, converted); !s.ok())
        return report(s);
      piece.clear();
      if (failed(packRows(op, rows, weight.getFactorOrOne(), piece)))
        return failure();
      if (Status s = writer.append(piece); !s.ok())
        return report(s);
      written += piece.size();
      if (options.progress)
        options.progress(written, total);
    }
    return success();
  }

  /// exec-pack-weights gave equal uses the same place: each place is written once, in order.
  std::map<int64_t, exec::WeightOp> collectPlaces() {
    std::map<int64_t, exec::WeightOp> places;
    module.walk([&](exec::WeightOp op) {
      if (op.getOffset())
        places.try_emplace(*op.getOffset(), op);
    });
    total = 0;
    for (auto &[offset, op] : places)
      total = std::max<uint64_t>(total, offset + *op.getSize());
    return places;
  }

  LogicalResult writeWeights(module::Writer &writer) {
    auto places = collectPlaces();
    if (options.weightsMissing) {
      auto segment = writer.addMissingWeights("packed", total);
      return segment.ok() ? success() : report(segment.status());
    }
    auto segment = writer.beginSegment(fb::SegmentKind::weights, "packed");
    if (!segment.ok())
      return report(segment.status());
    for (auto &[offset, op] : places) {
      auto at = writer.align(64);
      if (!at.ok())
        return report(at.status());
      if (*at != uint64_t(offset))
        return op.emitOpError("is planned at ") << offset << " but the segment is at " << *at;
      if (failed(packOne(writer, op)))
        return failure();
    }
    if (Status s = writer.endSegment(); !s.ok())
      return report(s);
    return success();
  }

  LogicalResult writeCode(module::Writer &writer, fb::ModuleT &header) {
    for (const CodeVariant &v : code) {
      auto bytes = std::as_bytes(std::span(v.bytes.data(), v.bytes.size()));
      auto segment = writer.addSegment(fb::SegmentKind::code, v.cpu, bytes);
      if (!segment.ok())
        return report(segment.status());
      auto variant = std::make_unique<fb::CodeVariantT>();
      variant->target = v.target;
      variant->cpu = v.cpu;
      variant->features = v.features;
      variant->segment = *segment;
      header.variants.push_back(std::move(variant));
    }
    return success();
  }

  /// Stays empty for a file of shapes only: nobody will type text at it.
  LogicalResult makeTokenizer(std::vector<std::byte> &out) {
    auto source = tokenizerSourceFromGguf(*files.front());
    if (!source.ok()) {
      if (options.weightsMissing && !files.front()->find("tokenizer.ggml.tokens"))
        return success();
      return report(source.status());
    }
    auto tables = buildTokenizerTables(*source);
    if (!tables.ok())
      return report(tables.status());
    out = *std::move(tables);
    return success();
  }

  LogicalResult writeTokenizer(module::Writer &writer) {
    std::vector<std::byte> tables;
    if (failed(makeTokenizer(tables)))
      return failure();
    if (tables.empty())
      return success();
    auto segment = writer.addSegment(fb::SegmentKind::tokenizer, "tokenizer", tables);
    return segment.ok() ? success() : report(segment.status());
  }

  ModuleOp module;
  ArrayRef<CodeVariant> code;
  const EmitOptions &options;
  SymbolTable symbols;
  std::vector<std::unique_ptr<gguf::File>> files;
  std::unique_ptr<weights::WeightRows> source; ///< of the weights; null when they are missing
  uint64_t written = 0, total = 0;
};

} // namespace

LogicalResult emitArtifact(ModuleOp module, ArrayRef<CodeVariant> code, const EmitOptions &options) {
  return Emitter(module, code, options).run();
}

FailureOr<Plan> planArtifact(ModuleOp module) {
  EmitOptions options;
  options.weightsMissing = true; // they are not read
  return Emitter(module, {}, options).plan();
}

} // namespace g4::emit
