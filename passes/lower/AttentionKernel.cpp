// Attention of one row and queries that share a K/V head. See #exec.attention.
//
// Keys are taken page by page at absolute positions with an online softmax, so a row's result depends on its own
// position only: not on the chunk it came in, the rows beside it or the pages' places. Positions outside
// [position - window, position] are never read as values, and their scores are replaced, not multiplied by
// zero: free and partly filled pages may hold NaN.
#include "passes/lower/KvPages.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {
namespace {

// Queries that share one pass over a strip of keys or values: their sums stay in registers (two vectors each on AVX2).
constexpr int64_t kHeadTile = 4;
// Stands for minus infinity: exp gives 0 for it against any real score, and differences of it stay finite.
constexpr float kMasked = -1.0e30f;

class AttentionKernel {
public:
  AttentionKernel(TileBuilder &t, AttentionAttr spec)
      : t(t), spec(spec), pages(t, spec.getKvElement(), spec.getKvHeads(), spec.getDim()),
        group(queriesPerItem(spec)), dim(spec.getDim()) {}
  void build();

private:
  /// `item`: of the row's.
  void item(Value row, Value item);
  void page(KvPages::Place keys, KvPages::Place values, Value lower, Value upper);
  void scores(KvPages::Place keys, Value strip, Value lower, Value upper);
  /// Products of queries [g, g + n) with the sixteen keys of a strip.
  TileBuilder::Values products(KvPages::Place keys, Value strip, int64_t g, int64_t n);
  void softmax(Value firstStrip, Value lastStrip);
  void values(KvPages::Place values, Value lower, Value upper);
  /// Adds sixteen columns, from `column` on, of the values of slots [lower, upper), each times its row of `weights`, to
  /// what earlier pages gave, which is scaled by `shrink`.
  void addValues(Value weights, Value column, Value lower, Value upper, function_ref<Value(Value, bool)> valueAt);
  /// Runs body(first head, number of heads) over the group in chunks of kHeadTile.
  void forHeads(function_ref<void(int64_t, int64_t)> body) {
    for (int64_t g = 0; g < group; g += kHeadTile)
      body(g, std::min(kHeadTile, group - g));
  }

  TileBuilder &t;
  AttentionAttr spec;
  KvPages pages;
  int64_t group, dim; // queries of an item; columns of a head
  Value score, sum, largest, total, lanes; // scratch [group][page], [group][dim], [1][group], [1][group]; 0..15
  Value shrink; // scratch [1][group]: what a page's maximum makes of earlier weights
  Value scaled; // scratch [group][page], for quantised pages: weights times the scales of a block of values
  Value row, column0;
};

TileBuilder::Values AttentionKernel::products(KvPages::Place keys, Value strip, int64_t g, int64_t n) {
  TileBuilder::Values zeros(n, t.splat(0));
  auto add = [&](TileBuilder::Values sums, Value keys, Value d) {
    for (int64_t i = 0; i < n; ++i) {
      Value q = t.load(t.arg("q"), {row, t.add(column0, t.add(t.index((g + i) * dim), d))});
      sums[i] = t.fma(t.lane(q), keys, sums[i]);
    }
    return sums;
  };
  if (!pages.isQuantised())
    return t.loop(t.index(0), t.index(dim), 1, zeros, [&](Value d, ValueRange acc) {
      return add(TileBuilder::Values(acc), pages.keyStrip(keys, strip, d, /*ahead=*/g == 0), d);
    });
  // The codes of a block are summed before its scales are known.
  return t.loop(t.index(0), t.index(pages.blocks()), 1, zeros, [&](Value block, ValueRange acc) {
    Value first = t.mul(block, t.index(module::kKvBlock));
    auto sums = t.loop(t.index(0), t.index(pages.codeRows()), 1, zeros, [&](Value j, ValueRange inner) {
      TileBuilder::Values sums(inner);
      for (auto [i, codes] : llvm::enumerate(pages.keyCodes(keys, strip, block, j, /*ahead=*/g == 0)))
        sums = add(std::move(sums), codes, t.add(first, t.add(j, t.index(pages.codeRows() * i))));
      return sums;
    });
    Value scales = pages.keyScales(keys, strip, block);
    for (int64_t i = 0; i < n; ++i)
      sums[i] = t.fma(sums[i], scales, acc[i]);
    return sums;
  });
}

void AttentionKernel::scores(KvPages::Place keys, Value strip, Value lower, Value upper) {
  Value keyLane = t.add(t.lane(arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), t.mul(strip, t.index(16)))), lanes);
  auto bound = [&](Value v) { return t.lane(arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), v)); };
  Value inside = arith::AndIOp::create(t.b, t.loc, t.compare(arith::CmpIPredicate::sge, keyLane, bound(lower)),
                                       t.compare(arith::CmpIPredicate::slt, keyLane, bound(upper)));
  forHeads([&](int64_t g, int64_t n) {
    auto sums = products(keys, strip, g, n);
    for (int64_t i = 0; i < n; ++i) {
      Value s = sums[i];
      if (float scale = spec.getScale().getValueAsDouble(); scale != 1.0f)
        s = t.mulf(s, t.splat(scale));
      t.storeStrip(t.select(inside, s, t.splat(kMasked)), score, {t.index(g + i), t.mul(strip, t.index(16))});
    }
  });
}

void AttentionKernel::softmax(Value firstStrip, Value lastStrip) {
  Value zero = t.index(0);
  t.forEach(zero, t.index(group), 1, [&](Value g) {
    auto scoreAt = [&](Value s) { return t.loadStrip(score, {g, t.mul(s, t.index(16))}); };
    Value top = t.loop(firstStrip, lastStrip, 1, {t.splat(kMasked)}, [&](Value s, ValueRange acc) -> TileBuilder::Values {
      return {t.maxf(acc[0], scoreAt(s))};
    })[0];
    Value before = t.load(largest, {zero, g});
    Value now = t.maxf(before, t.reduceMax(top));
    Value old = t.exp(t.subf(before, now)), nowLane = t.lane(now);
    Value added = t.loop(firstStrip, lastStrip, 1, {t.splat(0)}, [&](Value s, ValueRange acc) -> TileBuilder::Values {
      Value p = t.exp(t.subf(scoreAt(s), nowLane));
      t.storeStrip(p, score, {g, t.mul(s, t.index(16))});
      return {t.addf(acc[0], p)};
    })[0];
    t.store(now, largest, {zero, g});
    t.store(t.fma(t.load(total, {zero, g}), old, t.reduceSum(added)), total, {zero, g});
    t.store(old, shrink, {zero, g});
  });
}

void AttentionKernel::addValues(Value weights, Value column, Value lower, Value upper,
                                function_ref<Value(Value, bool)> valueAt) {
  forHeads([&](int64_t g, int64_t n) {
    TileBuilder::Values init;
    for (int64_t i = 0; i < n; ++i)
      init.push_back(t.mulf(t.loadStrip(sum, {t.index(g + i), column}), t.lane(t.load(shrink, {t.index(0), t.index(g + i)}))));
    auto sums = t.loop(lower, upper, 1, init, [&](Value key, ValueRange acc) {
      Value v = valueAt(key, /*ahead=*/g == 0);
      TileBuilder::Values next;
      for (int64_t i = 0; i < n; ++i)
        next.push_back(t.fma(t.lane(t.load(weights, {t.index(g + i), key})), v, acc[i]));
      return next;
    });
    for (int64_t i = 0; i < n; ++i)
      t.storeStrip(sums[i], sum, {t.index(g + i), column});
  });
}

void AttentionKernel::values(KvPages::Place values, Value lower, Value upper) {
  if (!pages.isQuantised()) {
    t.forEach(t.index(0), t.index(dim), 16, [&](Value d) {
      addValues(score, d, lower, upper, [&](Value key, bool ahead) { return pages.valueStrip(values, key, d, ahead); });
    });
    return;
  }
  Value zero = t.index(0), firstStrip = t.div(lower, t.index(16)), lastStrip = t.ceilDiv(upper, 16);
  t.forEach(zero, t.index(pages.blocks()), 1, [&](Value block) {
    t.forEach(firstStrip, lastStrip, 1, [&](Value strip) {
      Value scales = pages.valueScales(values, strip, block), slot = t.mul(strip, t.index(16));
      t.forEach(zero, t.index(group), 1, [&](Value g) {
        t.storeStrip(t.mulf(t.loadStrip(score, {g, slot}), scales), scaled, {g, slot});
      });
    });
    for (int64_t half : {0, 1}) {
      Value column = t.add(t.mul(block, t.index(module::kKvBlock)), t.index(16 * half));
      addValues(scaled, column, lower, upper, [&](Value key, bool ahead) { return pages.valueCodes(values, key, block, half, ahead); });
    }
  });
}

void AttentionKernel::page(KvPages::Place keys, KvPages::Place values, Value lower, Value upper) {
  Value firstStrip = t.div(lower, t.index(16)), lastStrip = t.ceilDiv(upper, 16);
  t.forEach(firstStrip, lastStrip, 1, [&](Value strip) { scores(keys, strip, lower, upper); });
  tile::BarrierOp::create(t.b, t.loc);
  softmax(firstStrip, lastStrip);
  tile::BarrierOp::create(t.b, t.loc);
  this->values(values, lower, upper);
  tile::BarrierOp::create(t.b, t.loc);
}

void AttentionKernel::item(Value rowOfSet, Value item) {
  row = rowOfSet;
  Value head = t.div(item, t.index(spec.getHeads() / spec.getKvHeads() / group));
  Value zero = t.index(0), tokens = t.index(module::kPageTokens);
  Value stepRow = t.loadIndex(t.arg("map"), {row});
  Value position = t.loadIndex(t.arg("positions"), {stepRow}), sequence = t.loadIndex(t.arg("sequences"), {stepRow});
  Value upper = t.add(position, t.index(1)), lower = zero;
  if (spec.getWindow() > 0) {
    Value window = t.index(spec.getWindow());
    lower = t.sub(t.max(upper, window), window);
  }
  column0 = t.mul(item, t.index(group * dim));
  t.forEach(zero, t.index(group), 1, [&](Value g) {
    t.store(t.f32(kMasked), largest, {zero, g});
    t.store(t.f32(0), total, {zero, g});
    t.forEach(zero, t.index(dim), 16, [&](Value d) { t.storeStrip(t.splat(0), sum, {g, d}); });
  });
  Value blocks = t.mul(sequence, t.loadIndex(t.arg("blocks_stride"), {zero}));
  t.forEach(t.div(lower, tokens), t.ceilDiv(upper, module::kPageTokens), 1, [&](Value p) {
    Value start = t.mul(p, tokens);
    Value number = t.loadIndex(t.arg("blocks"), {t.add(blocks, p)});
    page(pages.keys(number, head), pages.values(number, head), t.sub(t.max(lower, start), start), t.sub(t.min(upper, t.add(start, tokens)), start));
  });
  t.forEach(zero, t.index(group), 1, [&](Value g) {
    Value inverse = t.lane(t.divf(t.f32(1.0f), t.load(total, {zero, g})));
    auto result = [&](Value k) { return t.mulf(t.loadStrip(sum, {g, k}), inverse); };
    if (pages.isQuantised())
      pages.rotate(sum, g, [&](Value k, Value v) { t.storeStrip(v, sum, {g, k}); });
    t.writeActivation(t.activation("out"), row, t.add(column0, t.mul(g, t.index(dim))), dim, result);
  });
}

void AttentionKernel::build() {
  score = t.scratch({group, module::kPageTokens});
  sum = t.scratch({group, dim});
  largest = t.scratch({1, group});
  total = t.scratch({1, group});
  shrink = t.scratch({1, group});
  if (pages.isQuantised())
    scaled = t.scratch({group, module::kPageTokens});
  SmallVector<int32_t> iota;
  for (int32_t i = 0; i < int32_t(module::kLanes); ++i)
    iota.push_back(i);
  lanes = arith::ConstantOp::create(t.b, t.loc, DenseElementsAttr::get(t.stripType(t.b.getI32Type()), ArrayRef(iota)));
  Value perRow = t.index(spec.getHeads() / group);
  t.forEach(t.begin, t.end, 1, [&](Value i) { item(t.div(i, perRow), t.rem(i, perRow)); });
}

} // namespace

void buildAttention(TileBuilder &t, AttentionAttr spec) { AttentionKernel(t, spec).build(); }

} // namespace g4
