#include "compiler/emit/Emit.h"
#include "compiler/emit/Header.h"
#include "compiler/emit/Packer.h"
#include "compiler/emit/Plan.h"
#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "compiler/import/gguf/Gguf.h"
#include "compiler/weights/InOrder.h"
#include "compiler/weights/WeightRows.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/exec/Signature.h"
#include "runtime/module/Writer.h"

#include "mlir/IR/SymbolTable.h"

#include <future>

using namespace mlir;

namespace g4::emit {
namespace fb = module::fb;
namespace {

// Packed weights go to the file in pieces of about this size: large enough for the disk, small beside any model.
constexpr uint64_t kPieceBytes = 1 << 20;

/// Some rows of a weight as the artifact stores them.
struct Piece {
  exec::WeightOp op;
  gguf::WeightOp weight; ///< whose rows they are
  uint64_t first, count; ///< rows as stored
};

class Emitter {
public:
  using Code = function_ref<FailureOr<std::vector<CodeVariant>>()>;
  Emitter(ModuleOp module, const EmitOptions &options) : module(module), options(options), symbols(module) {}

  LogicalResult run(Code code) {
    if (failed(openFiles()))
      return failure();
    auto writer = module::Writer::create(options.output);
    if (!writer.ok())
      return report(writer.status());
    fb::ModuleT header;
    header.producer = options.producer;
    header.weights_missing = options.weightsMissing;
    // Seconds for a real vocabulary: made while weights are packed.
    auto tokenizer = std::async(std::launch::async, [this] { return makeTokenizer(); });
    if (failed(writeWeights(**writer)) || failed(writeCode(**writer, code, header)) || failed(writeTokenizer(**writer, tokenizer.get())))
      return failure();
    if (failed(fillHeader(header)))
      return failure();
    if (Status s = (*writer)->finish(header); !s.ok())
      return report(s);
    return success();
  }

  FailureOr<Plan> plan() {
    Plan out;
    if (failed(openFiles()) || failed(fillHeader(out.header)))
      return failure();
    auto tables = makeTokenizer();
    if (!tables.ok())
      return report(tables.status());
    collectPlaces();
    out.weightBytes = total;
    out.tokenizerBytes = tables->size();
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

  /// Appends what `op` stores, in pieces.
  LogicalResult collectPieces(exec::WeightOp op, std::vector<Piece> &pieces) {
    auto part = cast<gguf::PartAttr>(op.getPart());
    auto weight = symbols.lookup<gguf::WeightOp>(part.getWeight().getValue());
    if (!weight)
      return op.emitOpError("reads ") << part.getWeight() << ", which is not a weight of this module";
    exec::MatrixAttr matrix = op.getMatrix();
    const module::PackedLayout &layout = gguf::getPackedLayout(matrix.getElement());
    if (op.getStorage() == exec::Storage::vector && !layout.isFloat)
      return op.emitOpError("is a vector of ") << gguf::stringifyElementType(matrix.getElement()) << ", expected f32, f16 or bf16";
    uint64_t rows = part.getRows() ? matrix.getRows() / part.getRows() * part.getRows() : 0;
    if (rows)
      if (uint64_t last = rowOf(part, rows - 1); last >= uint64_t(weight.getMatrixType().getRows()))
        return op.emitOpError("reads row ") << last << " of " << part.getWeight() << ", which has fewer";
    // Whole groups of 16 rows.
    uint64_t some = std::max<uint64_t>(kPieceBytes / layout.groupBytes(matrix.getColumns()), 1) * 16;
    for (uint64_t first = 0; first < rows; first += some)
      pieces.push_back({op, weight, first, std::min(some, rows - first)});
    return success();
  }

  /// Which of the weight's rows is stored as the n-th.
  static uint64_t rowOf(gguf::PartAttr part, uint64_t n) {
    return n / part.getRows() * part.getStride() + part.getFirst() + n % part.getRows();
  }

  /// Threads: free.
  Status pack(const Piece &piece, std::vector<std::byte> &out) const {
    std::vector<uint64_t> indices(piece.count);
    for (uint64_t i = 0; i < piece.count; ++i)
      indices[i] = rowOf(cast<gguf::PartAttr>(exec::WeightOp(piece.op).getPart()), piece.first + i);
    std::vector<Row> rows;
    std::vector<std::byte> converted;
    G4_RETURN_IF_ERROR(source->read(piece.weight, indices, rows, converted));
    packRows(piece.op, rows, gguf::WeightOp(piece.weight).getFactorOrOne(), out);
    source->release(piece.weight, indices);
    return {};
  }

  using Row = weights::WeightRows::Row;

  /// Makes `piece` of rows as `op` stores them.
  static void packRows(exec::WeightOp op, ArrayRef<Row> rows, float factor, std::vector<std::byte> &piece) {
    exec::MatrixAttr matrix = op.getMatrix();
    const module::PackedLayout &layout = gguf::getPackedLayout(matrix.getElement());
    uint64_t columns = matrix.getColumns();
    piece.clear();
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
    std::vector<Piece> pieces;
    for (auto &[offset, op] : places)
      if (failed(collectPieces(op, pieces)))
        return failure();
    uint64_t written = 0;
    auto make = [&](uint64_t i, std::vector<std::byte> &out) { return pack(pieces[i], out); };
    auto use = [&](uint64_t i, std::span<const std::byte> bytes) -> Status {
      if (uint64_t offset = *pieces[i].op.getOffset(); pieces[i].first == 0) {
        G4_ASSIGN_OR_RETURN(uint64_t at, writer.align(64));
        if (at != offset)
          return internalError("a weight is planned at " + std::to_string(offset) + " but the segment is at " + std::to_string(at));
      }
      G4_RETURN_IF_ERROR(writer.append(bytes));
      written += bytes.size();
      if (options.progress)
        options.progress(written, total);
      return {};
    };
    if (Status s = weights::inOrder(pieces.size(), make, use); !s.ok())
      return report(s);
    if (Status s = writer.endSegment(); !s.ok())
      return report(s);
    return success();
  }

  LogicalResult writeCode(module::Writer &writer, Code code, fb::ModuleT &header) {
    auto variants = code();
    if (failed(variants))
      return failure();
    for (const CodeVariant &v : *variants) {
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

  /// Empty for a file of shapes only: nobody will type text at it. Uses no MLIR.
  Result<std::vector<std::byte>> makeTokenizer() const {
    if (options.weightsMissing && !files.front()->find("tokenizer.ggml.tokens"))
      return std::vector<std::byte>();
    G4_ASSIGN_OR_RETURN(TokenizerSource vocabulary, tokenizerSourceFromGguf(*files.front()));
    return buildTokenizerTables(vocabulary);
  }

  LogicalResult writeTokenizer(module::Writer &writer, const Result<std::vector<std::byte>> &tables) {
    if (!tables.ok())
      return report(tables.status());
    if (tables->empty())
      return success();
    auto segment = writer.addSegment(fb::SegmentKind::tokenizer, "tokenizer", *tables);
    return segment.ok() ? success() : report(segment.status());
  }

  ModuleOp module;
  const EmitOptions &options;
  SymbolTable symbols;
  std::vector<std::unique_ptr<gguf::File>> files;
  std::unique_ptr<weights::WeightRows> source; ///< of the weights; null when they are missing
  uint64_t total = 0;
};

} // namespace

LogicalResult emitArtifact(ModuleOp module, function_ref<FailureOr<std::vector<CodeVariant>>()> code,
                           const EmitOptions &options) {
  return Emitter(module, options).run(code);
}

FailureOr<Plan> planArtifact(ModuleOp module) {
  EmitOptions options;
  options.weightsMissing = true; // they are not read
  return Emitter(module, options).plan();
}

} // namespace g4::emit
