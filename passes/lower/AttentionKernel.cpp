// Attention of one row and one K/V head's queries. See #exec.attention.
//
// What a row sees is cut into segments at absolute positions. Within one, keys are taken page by page with an online
// softmax; segments are then folded in order, in the same way whether one item did them all or each its own. So a
// row's result depends on its own position only: not on the chunk it came in, the rows beside it or the pages'
// places. Positions outside [position - window, position] are never read as values, and their scores are replaced, not
// multiplied by zero: free and partly filled pages may hold NaN.
#include "passes/lower/KvPages.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {
namespace {

// Queries that share one pass over a strip of keys or values: their sums stay in registers (two vectors each on AVX2).
constexpr int64_t kHeadTile = 4;
// Stands for minus infinity: exp gives 0 for it against any real score, and differences of it stay finite.
constexpr float kMasked = -1.0e30f;

/// The softmax of a group of queries so far: largest scores [1][group], sums of weights [1][group], weighted values
/// [group][dim]. Scratch.
struct Running {
  Value largest, total, values;
};

class AttentionKernel {
public:
  AttentionKernel(TileBuilder &t, AttentionAttr spec)
      : t(t), spec(spec), pages(t, spec.getKvElement(), spec.getKvHeads(), spec.getDim()),
        group(spec.getHeads() / spec.getKvHeads()), dim(spec.getDim()), segments(segmentsOf(spec)) {}
  void build(bool maySplit);

private:
  /// What a row sees: positions [lower, upper), pages [firstPage, lastPage), segments [first, last) of `length` pages.
  struct View {
    Value stepRow, lower, upper, firstPage, lastPage, length, first, last;
  };
  View viewOf(Value row);
  void item(Value i);
  void segment(Value number, const View &view, Value head);
  void page(KvPages::Place keys, KvPages::Place values, Value lower, Value upper);
  void scores(KvPages::Place keys, Value strip, Value lower, Value upper);
  /// Products of queries [g, g + n) with the sixteen keys of a strip.
  TileBuilder::Values products(KvPages::Place keys, Value strip, int64_t g, int64_t n);
  void softmax(Value firstStrip, Value lastStrip);
  void values(KvPages::Place values, Value lower, Value upper);
  /// Adds sixteen columns, from `column` on, of the values of slots [lower, upper), each times its row of `weights`, to
  /// what earlier pages gave, which is scaled by `shrink`.
  void addValues(Value weights, Value column, Value lower, Value upper, function_ref<Value(Value, bool)> valueAt);

  /// The row of `parts` of query g's segment `number`, counted from the first that the row sees.
  Value partRow(Value head, Value g, Value number) {
    Value query = t.add(t.mul(row, t.index(spec.getHeads())), t.add(t.mul(head, t.index(group)), g));
    return t.add(t.mul(query, t.index(segments)), number);
  }
  void writePart(Value head, Value number);
  /// Counts an item's segment as written. Of `count` items of the row, the last to arrive folds them all and yields true.
  Value arrive(Value head, Value count);
  Running running() { return {t.scratch({1, group}), t.scratch({1, group}), t.scratch({group, dim})}; }
  void clear(const Running &r);
  /// Folds a segment's results for query g into `all`.
  void fold(Value g, Value largest, Value total, function_ref<Value(Value)> valuesAt);
  void finish();

  Value both(Value x, Value y) { return arith::AndIOp::create(t.b, t.loc, x, y); }
  void forEachQuery(function_ref<void(Value)> body) { t.forEach(t.index(0), t.index(group), 1, body); }
  /// Runs body(first head, number of heads) over the group in chunks of kHeadTile.
  void forHeads(function_ref<void(int64_t, int64_t)> body) {
    for (int64_t g = 0; g < group; g += kHeadTile)
      body(g, std::min(kHeadTile, group - g));
  }

  TileBuilder &t;
  AttentionAttr spec;
  KvPages pages;
  int64_t group, dim, segments;
  Running part, all;          // of a segment, of all segments
  Value score, shrink, lanes; // scratch [group][page], [1][group]; 0..15
  Value scaled; // scratch [group][page], for quantised pages: weights times the scales of a block of values
  Value split;  // whether segments of a row may be items of their own; null: never
  Value row, column0;
};

AttentionKernel::View AttentionKernel::viewOf(Value row) {
  View v;
  int64_t window = spec.getWindow(), most = kMostSegments * module::kPageTokens;
  v.stepRow = t.loadIndex(t.arg("map"), {row});
  v.upper = t.add(t.loadIndex(t.arg("positions"), {v.stepRow}), t.index(1));
  v.lower = window ? t.sub(t.max(v.upper, t.index(window)), t.index(window)) : t.index(0);
  v.length = t.ceilDiv(window ? t.index(window) : v.upper, most);
  v.firstPage = window ? t.div(v.lower, t.index(module::kPageTokens)) : v.lower;
  v.lastPage = t.ceilDiv(v.upper, module::kPageTokens);
  v.first = window ? t.div(v.firstPage, v.length) : v.firstPage;
  v.last = t.add(t.div(t.sub(v.lastPage, t.index(1)), v.length), t.index(1));
  return v;
}

void AttentionKernel::clear(const Running &r) {
  Value zero = t.index(0);
  forEachQuery([&](Value g) {
    t.store(t.f32(kMasked), r.largest, {zero, g});
    t.store(t.f32(0), r.total, {zero, g});
    t.forEach(zero, t.index(dim), module::kLanes, [&](Value d) { t.storeStrip(t.splat(0), r.values, {g, d}); });
  });
}

void AttentionKernel::fold(Value g, Value largest, Value total, function_ref<Value(Value)> valuesAt) {
  Value zero = t.index(0), before = t.load(all.largest, {zero, g}), now = t.maxf(before, largest);
  Value old = t.exp(t.subf(before, now)), more = t.exp(t.subf(largest, now));
  t.store(now, all.largest, {zero, g});
  t.store(t.fma(t.load(all.total, {zero, g}), old, t.mulf(total, more)), all.total, {zero, g});
  Value oldLane = t.lane(old), moreLane = t.lane(more);
  t.forEach(zero, t.index(dim), module::kLanes, [&](Value d) {
    t.storeStrip(t.fma(t.loadStrip(all.values, {g, d}), oldLane, t.mulf(valuesAt(d), moreLane)), all.values, {g, d});
  });
}

void AttentionKernel::finish() {
  forEachQuery([&](Value g) {
    Value inverse = t.lane(t.divf(t.f32(1.0f), t.load(all.total, {t.index(0), g})));
    if (pages.isQuantised())
      pages.rotate(all.values, g, [&](Value k, Value v) { t.storeStrip(v, all.values, {g, k}); });
    t.writeActivation(t.activation("out"), row, t.add(column0, t.mul(g, t.index(dim))), dim,
                      [&](Value k) { return t.mulf(t.loadStrip(all.values, {g, k}), inverse); });
  });
}

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
  Value inside = both(t.compare(arith::CmpIPredicate::sge, keyLane, bound(lower)),
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
    Value before = t.load(part.largest, {zero, g});
    Value now = t.maxf(before, t.reduceMax(top));
    Value old = t.exp(t.subf(before, now)), nowLane = t.lane(now);
    Value added = t.loop(firstStrip, lastStrip, 1, {t.splat(0)}, [&](Value s, ValueRange acc) -> TileBuilder::Values {
      Value p = t.exp(t.subf(scoreAt(s), nowLane));
      t.storeStrip(p, score, {g, t.mul(s, t.index(16))});
      return {t.addf(acc[0], p)};
    })[0];
    t.store(now, part.largest, {zero, g});
    t.store(t.fma(t.load(part.total, {zero, g}), old, t.reduceSum(added)), part.total, {zero, g});
    t.store(old, shrink, {zero, g});
  });
}

void AttentionKernel::addValues(Value weights, Value column, Value lower, Value upper,
                                function_ref<Value(Value, bool)> valueAt) {
  forHeads([&](int64_t g, int64_t n) {
    TileBuilder::Values init;
    for (int64_t i = 0; i < n; ++i)
      init.push_back(t.mulf(t.loadStrip(part.values, {t.index(g + i), column}), t.lane(t.load(shrink, {t.index(0), t.index(g + i)}))));
    auto sums = t.loop(lower, upper, 1, init, [&](Value key, ValueRange acc) {
      Value v = valueAt(key, /*ahead=*/g == 0);
      TileBuilder::Values next;
      for (int64_t i = 0; i < n; ++i)
        next.push_back(t.fma(t.lane(t.load(weights, {t.index(g + i), key})), v, acc[i]));
      return next;
    });
    for (int64_t i = 0; i < n; ++i)
      t.storeStrip(sums[i], part.values, {t.index(g + i), column});
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

void AttentionKernel::segment(Value number, const View &view, Value head) {
  Value tokens = t.index(module::kPageTokens), begin = t.mul(number, view.length), end = t.add(begin, view.length);
  Value sequence = t.loadIndex(t.arg("sequences"), {view.stepRow});
  Value blocks = t.mul(sequence, t.loadIndex(t.arg("blocks_stride"), {t.index(0)}));
  t.forEach(t.max(begin, view.firstPage), t.min(end, view.lastPage), 1, [&](Value p) {
    Value start = t.mul(p, tokens), id = t.loadIndex(t.arg("blocks"), {t.add(blocks, p)});
    page(pages.keys(id, head), pages.values(id, head), t.sub(t.max(view.lower, start), start),
         t.sub(t.min(view.upper, t.add(start, tokens)), start));
  });
}

void AttentionKernel::writePart(Value head, Value number) {
  Value zero = t.index(0), parts = t.arg("parts");
  forEachQuery([&](Value g) {
    Value to = partRow(head, g, number);
    t.store(t.load(part.largest, {zero, g}), parts, {to, t.index(dim)});
    t.store(t.load(part.total, {zero, g}), parts, {to, t.index(dim + 1)});
    t.forEach(zero, t.index(dim), module::kLanes,
              [&](Value d) { t.storeStrip(t.loadStrip(part.values, {g, d}), parts, {to, d}); });
  });
}

Value AttentionKernel::arrive(Value head, Value count) {
  // Releases this item's part and acquires those counted before it.
  Value before = memref::AtomicRMWOp::create(t.b, t.loc, arith::AtomicRMWKind::addi, t.i32(1), t.arg("arrivals"),
                                             ValueRange{row, head});
  Value isLast = t.compare(arith::CmpIPredicate::eq, t.toIndex(before), t.sub(count, t.index(1)));
  t.ifThen(isLast, [&] {
    Value parts = t.arg("parts");
    clear(all);
    t.forEach(t.index(0), count, 1, [&](Value number) {
      forEachQuery([&](Value g) {
        Value from = partRow(head, g, number);
        fold(g, t.load(parts, {from, t.index(dim)}), t.load(parts, {from, t.index(dim + 1)}),
             [&](Value d) { return t.loadStrip(parts, {from, d}); });
      });
    });
  });
  return isLast;
}

/// Items of a row and K/V head are its segments, the last one first: threads take long runs of items first and single ones at
/// the end, and short sequences have the first segments only.
void AttentionKernel::item(Value i) {
  Value zero = t.index(0), most = t.index(segments), kvHeads = t.index(spec.getKvHeads());
  Value pair = t.div(i, most), number = t.sub(t.index(segments - 1), t.rem(i, most)), head = t.rem(pair, kvHeads);
  row = t.div(pair, kvHeads);
  column0 = t.mul(head, t.index(group * dim));
  View view = viewOf(row);
  Value count = t.sub(view.last, view.first), mine = t.add(view.first, number);
  // An item does the whole row or one segment, or there is nothing for it.
  Value isWhole = t.compare(arith::CmpIPredicate::eq, number, zero), isPart, until;
  if (split) {
    Value isSplit = both(split, t.compare(arith::CmpIPredicate::ugt, count, t.index(1)));
    isPart = both(isSplit, t.compare(arith::CmpIPredicate::ult, number, count));
    isWhole = t.select(isSplit, arith::ConstantIntOp::create(t.b, t.loc, 0, 1), isWhole);
    until = t.select(isPart, t.add(mine, t.index(1)), t.select(isWhole, view.last, mine));
  } else {
    until = t.select(isWhole, view.last, mine);
  }
  t.ifThen(isWhole, [&] { clear(all); });
  t.forEach(mine, until, 1, [&](Value s) {
    clear(part);
    segment(s, view, head);
    auto foldPart = [&] {
      forEachQuery([&](Value g) {
        fold(g, t.load(part.largest, {zero, g}), t.load(part.total, {zero, g}),
             [&](Value d) { return t.loadStrip(part.values, {g, d}); });
      });
    };
    if (split)
      t.ifThen(isPart, [&] { writePart(head, number); }, foldPart);
    else
      foldPart();
  });
  Value isDone = split ? t.ifElse(isPart, [&] { return arrive(head, count); }, [&] { return isWhole; }) : isWhole;
  t.ifThen(isDone, [&] { finish(); });
}

void AttentionKernel::build(bool maySplit) {
  score = t.scratch({group, module::kPageTokens});
  shrink = t.scratch({1, group});
  part = running();
  all = running();
  if (pages.isQuantised())
    scaled = t.scratch({group, module::kPageTokens});
  SmallVector<int32_t> iota;
  for (int32_t i = 0; i < int32_t(module::kLanes); ++i)
    iota.push_back(i);
  lanes = arith::ConstantOp::create(t.b, t.loc, DenseElementsAttr::get(t.stripType(t.b.getI32Type()), ArrayRef(iota)));
  if (maySplit)
    split = t.compare(arith::CmpIPredicate::ule, t.loadIndex(t.arg("count"), {t.index(0)}), t.index(kSplitRows));
  t.forEach(t.begin, t.end, 1, [&](Value i) { item(i); });
}

} // namespace

void buildAttention(TileBuilder &t, AttentionAttr spec, bool maySplit) { AttentionKernel(t, spec).build(maySplit); }

} // namespace g4
