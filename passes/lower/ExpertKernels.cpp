// Routed experts: sorting (row, expert) pairs into tiles, and contractions over the tiles.
#include "passes/lower/TileBuilder.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {

// Layout of the `tiles` buffer: tiles[0] is their number, tile i is (expert, first entry of order, entries) at 1 + 3 i.
// `order` holds pairs row * used + k, sorted by expert and then by pair, so that equal steps give equal tiles.

void buildSortExperts(TileBuilder &t, SortExpertsAttr spec) {
  Value zero = t.index(0), one = t.index(1), experts = t.index(spec.getExperts()), used = t.index(spec.getUsed());
  Value first = t.scratch({spec.getExperts() + 1}, t.b.getI32Type());
  Value next = t.scratch({spec.getExperts()}, t.b.getI32Type());
  auto asI32 = [&](Value v) { return arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), v).getResult(); };
  Value pairs = t.mul(t.toIndex(t.load(t.arg("count"), {zero})), used);
  auto expertOf = [&](Value pair) {
    return t.loadIndex(t.arg("router_idx"), {t.div(pair, used), t.rem(pair, used)});
  };
  t.forEach(t.begin, t.end, 1, [&](Value) {
    t.forEach(zero, t.index(spec.getExperts() + 1), 1, [&](Value e) { t.store(t.i32(0), first, {e}); });
    t.forEach(zero, pairs, 1, [&](Value pair) {
      Value at = t.add(expertOf(pair), one);
      t.store(t.add(t.load(first, {at}), t.i32(1)), first, {at});
    });
    t.forEach(zero, experts, 1, [&](Value e) {
      Value at = t.add(e, one);
      t.store(t.load(first, {e}), next, {e});
      t.store(t.add(t.load(first, {at}), t.load(first, {e})), first, {at});
    });
    t.forEach(zero, pairs, 1, [&](Value pair) {
      Value e = expertOf(pair), at = t.load(next, {e});
      t.store(asI32(pair), t.arg("order"), {t.toIndex(at)});
      t.store(t.add(at, t.i32(1)), next, {e});
    });
    Value tiles = t.loop(zero, experts, 1, {zero}, [&](Value e, ValueRange n) -> TileBuilder::Values {
      Value lower = t.loadIndex(first, {e}), upper = t.loadIndex(first, {t.add(e, one)});
      auto inner = t.loop(lower, upper, spec.getTileRows(), {n[0]}, [&](Value at, ValueRange m) -> TileBuilder::Values {
        Value entry = t.add(one, t.mul(m[0], t.index(3)));
        t.store(asI32(e), t.arg("tiles"), {entry});
        t.store(asI32(at), t.arg("tiles"), {t.add(entry, one)});
        t.store(asI32(t.min(t.index(spec.getTileRows()), t.sub(upper, at))), t.arg("tiles"), {t.add(entry, t.index(2))});
        return {t.add(m[0], one)};
      });
      return {inner[0]};
    })[0];
    t.store(asI32(tiles), t.arg("tiles"), {zero});
  });
}

void buildExperts(TileBuilder &t, ExpertsAttr spec) {
  bool up = spec.getParts().size() == 2;
  int64_t outputs = spec.getParts()[0].getRows() / spec.getExperts(), tile = spec.getTile(), perTile = outputs / tile;
  Activation input = t.activation("x");
  Value scratch = up ? t.scratch({spec.getTileRows(), tile}) : Value();
  Value rows = t.scratch({spec.getTileRows()}, t.b.getI32Type()); // of the input
  SmallVector<Value> sums;
  for (size_t p = 0; p < spec.getParts().size(); ++p)
    sums.push_back(t.scratch({spec.getTileRows(), 16}));
  Value zero = t.index(0), one = t.index(1), used = t.index(spec.getUsed());
  // The grid has room for one tile per pair; how many there are is known only here. So an item of the grid is a share of the
  // list, and whoever takes a tenth of the grid does a tenth of the work. (Fits 32 bits for 4096 rows of the largest model.)
  Value tiles = t.loadIndex(t.arg("tiles"), {zero}), pairs = t.mul(t.loadIndex(t.arg("count"), {zero}), used);
  auto share = [&](Value items) { return t.div(t.mul(items, tiles), pairs); };
  t.forEach(share(t.begin), share(t.end), 1, [&](Value item) {
    Value entry = t.add(one, t.mul(t.div(item, t.index(perTile)), t.index(3))), part = t.rem(item, t.index(perTile));
    Value expert = t.loadIndex(t.arg("tiles"), {entry}), at = t.loadIndex(t.arg("tiles"), {t.add(entry, one)});
    Value n = t.loadIndex(t.arg("tiles"), {t.add(entry, t.index(2))});
    Value column0 = t.mul(part, t.index(tile));
    Value group0 = t.add(t.mul(expert, t.index(outputs / 16)), t.mul(part, t.index(tile / 16)));
    auto pairOf = [&](Value m) { return t.loadIndex(t.arg("order"), {t.add(at, m)}); };
    t.forEach(zero, n, 1, [&](Value m) {
      Value pair = pairOf(m), row = up ? t.div(pair, used) : pair;
      t.store(arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), row), rows, {m});
    });
    t.forEach(zero, t.index(tile / 16), 1, [&](Value g) {
      Value column = t.mul(g, t.index(16));
      for (auto [p, sum] : llvm::enumerate(sums))
        t.contractPart(spec.getParts()[p], p, expert, t.add(group0, g), input, {zero, n, rows}, sum, spec.getInt8());
      t.forEach(zero, n, 1, [&](Value m) {
        Value sum = t.loadStrip(sums[0], {m, zero});
        if (up) {
          t.storeStrip(t.mulf(t.gelu(sum), t.loadStrip(sums[1], {m, zero})), scratch, {m, column});
        } else {
          Value pair = pairOf(m), weight = t.lane(t.load(t.arg("router_w"), {pair}));
          t.storeStrip(t.mulf(sum, weight), t.arg("out"), {pair, t.add(column0, column)});
        }
      });
    });
    if (up)
      t.forEach(zero, n, 1, [&](Value m) {
        t.writeActivation(t.activation("out"), pairOf(m), column0, tile,
                          [&](Value k) { return t.loadStrip(scratch, {m, k}); });
      });
  });
}

} // namespace g4
