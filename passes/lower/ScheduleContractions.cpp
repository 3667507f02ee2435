// tile.contract to loops over rows and blocks. See tile-schedule-contractions.
#include "dialects/exec/ExecDialect.h"
#include "dialects/gguf/GgufDialect.h"
#include "dialects/tile/TileDialect.h"
#include "passes/lower/Passes.h"
#include "passes/lower/StripBuilder.h"
#include "runtime/module/PackedLayout.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace g4::lower {
#define GEN_PASS_DEF_SCHEDULECONTRACTIONSPASS
#include "passes/lower/Passes.h.inc"
namespace {

// Blocks of a panel: 256 columns. With their scales 4.5 to 6 KiB, which leaves most of a first cache of 32 KiB to the
// activations; the sums are loaded and stored once for all of them.
constexpr int64_t kPanelBlocks = 8;

// Up to so many rows decode for each tile of rows: cheaper than to store blocks and load them.
constexpr int64_t kDirectRows = 8;

/// Panels by kernel and type: contractions of a kernel share them.
using Panels = DenseMap<std::pair<Operation *, Type>, Value>;

class Contraction : StripBuilder {
public:
  /// `panels`: null to go without.
  Contraction(tile::ContractOp op, int64_t rowTile, Panels *panels)
      : StripBuilder(OpBuilder(op), op.getLoc()), op(op), rowTile(rowTile), panels(panels), block(cast<tile::BlockType>(op.getBlock())),
        int8(op.getInput().size() == 3), sums(op.getSums()) {}

  void expand() {
    if (isConstantIntValue(op.getN(), 1))
      return oneRow();
    ifAtMost(1, [&] { oneRow(); }, [&] {
      forEach(index(0), index(op.getGroups()), 1, [&](V j) {
        group = add(op.getGroup(), mul(j, index(op.getApart())));
        sums0 = mul(j, index(rowsOfGroup()));
        auto several = [&] { severalDirect(std::min<int64_t>(2, rowTile)); };
        if (!panels || decodesCheaply())
          return several();
        ifAtMost(kDirectRows, several, [&] { throughPanels(); });
      });
    });
  }

private:
  /// Row i of the tile at row m, or the last one where there are fewer: it is computed again, to the same bits.
  V at(V m, int64_t i) { return i ? min(add(m, index(i)), last) : m; }
  V rowOf(V m) {
    V row = add(op.getFirst(), m);
    return op.getMap() ? loadIndex(op.getMap(), row) : row;
  }
  Values rowsOf(V m, int64_t n) {
    Values rows;
    for (int64_t i = 0; i < n; ++i)
      rows.push_back(rowOf(at(m, i)));
    return rows;
  }
  void ifAtMost(int64_t rows, function_ref<void()> then, function_ref<void()> otherwise) {
    ifThen(compare(arith::CmpIPredicate::ule, op.getN(), index(rows)), then, otherwise);
  }
  /// Calls body(first row, rows) for tiles of `size` rows. The last one may be part empty.
  void tiles(int64_t size, function_ref<void(V, int64_t)> body) {
    last = sub(op.getN(), index(1));
    forEach(index(0), op.getN(), size, [&](V m) { body(m, size); });
  }
  int64_t rowsOfGroup() { return cast<MemRefType>(sums.getType()).getDimSize(0) / op.getGroups(); }
  V loadSum(V m) { return loadStrip(sums, {add(sums0, m), index(0)}); }
  void storeSum(V v, V m) { storeStrip(v, sums, {add(sums0, m), index(0)}); }
  void storeSums(V m, ValueRange values) {
    for (auto [i, v] : llvm::enumerate(values))
      storeSum(v, at(m, i));
  }
  V loadQuant(V group, V k) { return tile::LoadQuantOp::create(b, loc, block, op.getWeights(), group, k, op.getColumns()); }
  V dot(V of, V row, V k, V sum) {
    ValueRange x = op.getInput();
    if (int8)
      return tile::DotOp::create(b, loc, sum.getType(), of, x[0], x[1], x[2], row, k, sum);
    return tile::DotF32Op::create(b, loc, sum.getType(), of, x[0], row, k, sum);
  }
  Values dots(V of, ArrayRef<V> rows, V k, ValueRange acc) {
    Values next;
    for (auto [row, sum] : llvm::zip(rows, acc))
      next.push_back(dot(of, row, k, sum));
    return next;
  }

  /// One row of all groups at once, from the packed blocks.
  void oneRow() {
    V row = rowOf(index(0));
    int64_t groups = op.getGroups();
    Values results = loop(index(0), index(op.getColumns() / 32), 1, Values(groups, splat(0)), [&](V k, ValueRange acc) {
      Values next;
      for (int64_t j = 0; j < groups; ++j)
        next.push_back(dot(loadQuant(add(op.getGroup(), index(j * op.getApart())), k), row, k, acc[j]));
      return next;
    });
    for (auto [j, result] : llvm::enumerate(results))
      storeStrip(result, sums, {index(j * rowsOfGroup()), index(0)});
  }

  /// Rows m .. m + n - 1 from the packed blocks.
  void direct(V m, int64_t n) {
    Values rows = rowsOf(m, n);
    storeSums(m, loop(index(0), index(op.getColumns() / 32), 1, Values(n, splat(0)),
                      [&](V k, ValueRange acc) { return dots(loadQuant(group, k), rows, k, acc); }));
  }

  /// Each tile of rows decodes for itself: spread over the products, so that memory is read meanwhile.
  void severalDirect(int64_t size) {
    auto some = [&] { tiles(size, [&](V m, int64_t n) { direct(m, n); }); };
    if (size >= rowTile)
      return some();
    ifAtMost(size, some, [&] { severalDirect(2 * size); });
  }
  /// A block's codes lie in one plane and its scales need no arithmetic: what a panel would save is what it costs.
  bool decodesCheaply() const {
    const module::PackedLayout &layout = gguf::getPackedLayout(block.getElement());
    return layout.isFloat || (int8 && layout.codes == module::Codes::kPlanes && (layout.bits == 4 || layout.bits == 8) &&
                              layout.scales == module::Scales::kNone);
  }

  void throughPanels() {
    int64_t blocks = op.getColumns() / 32, perPanel = int8 ? kPanelBlocks : 1;
    V panel = panelScratch();
    forEach(index(0), op.getN(), 1, [&](V m) { storeSum(splat(0), m); });
    forEach(index(0), index(blocks), perPanel, [&](V first) {
      V end = add(first, index(perPanel));
      if (blocks % perPanel)
        end = min(end, index(blocks));
      if (int8)
        forEach(first, end, 1, [&](V k) {
          V slot = sub(k, first);
          tile::DecodeOp::create(b, loc, loadQuant(group, k), panel, slot);
        });
      else
        tile::DequantOp::create(b, loc, loadQuant(group, first), panel);
      tiles(rowTile, [&](V m, int64_t n) {
        Values rows = rowsOf(m, n), acc;
        for (int64_t i = 0; i < n; ++i)
          acc.push_back(loadSum(at(m, i)));
        storeSums(m, int8 ? ofDecoded(panel, first, end, rows, acc) : ofFloats(panel, first, rows, acc));
      });
    });
  }
  Values ofDecoded(V panel, V first, V end, ArrayRef<V> rows, ValueRange acc) {
    return loop(first, end, 1, acc, [&](V k, ValueRange sum) {
      V slot = sub(k, first);
      return dots(tile::LoadDecodedOp::create(b, loc, block, panel, slot), rows, k, sum);
    });
  }
  /// As tile.dot_f32 does, from a block's values.
  Values ofFloats(V panel, V k, ArrayRef<V> rows, ValueRange acc) {
    V column0 = mul(k, index(32));
    return loop(index(0), index(32), 1, acc, [&](V c, ValueRange sum) {
      V w = loadStrip(panel, {c, index(0)});
      Values next;
      for (auto [row, s] : llvm::zip(rows, sum))
        next.push_back(fma(w, lane(load(op.getInput()[0], {row, add(column0, c)})), s));
      return next;
    });
  }
  /// At the kernel's entry, outside every loop.
  V panelScratch() {
    auto kernel = op->getParentOfType<exec::KernelOp>();
    auto type = int8 ? MemRefType::get({kPanelBlocks, tile::decodedBytes(block.getElement())}, b.getI8Type())
                     : MemRefType::get({32, module::kLanes}, b.getF32Type());
    V &panel = (*panels)[{kernel, type}];
    if (!panel) {
      auto entry = OpBuilder::atBlockBegin(&kernel.getBody().front());
      panel = memref::AllocaOp::create(entry, loc, type, b.getI64IntegerAttr(64));
    }
    return panel;
  }

  tile::ContractOp op;
  int64_t rowTile;
  Panels *panels;
  tile::BlockType block;
  bool int8;
  V sums;
  V group, sums0; // of several rows: the group at hand, and where its rows of sums begin
  V last;         // the last row, in a tile
};

struct ScheduleContractionsPass : impl::ScheduleContractionsPassBase<ScheduleContractionsPass> {
  using Base::Base;
  void runOnOperation() override {
    if (rowTile < 1 || (rowTile & (rowTile - 1))) {
      getOperation().emitError() << "row-tile is " << rowTile.getValue() << ", no power of two";
      return signalPassFailure();
    }
    SmallVector<tile::ContractOp> contractions;
    getOperation().walk([&](tile::ContractOp op) { contractions.push_back(op); });
    Panels shared;
    for (tile::ContractOp op : contractions) {
      Contraction(op, rowTile, panels ? &shared : nullptr).expand();
      op.erase();
    }
  }
};

} // namespace
} // namespace g4::lower
