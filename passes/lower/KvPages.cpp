#include "passes/lower/KvPages.h"

#include <cmath>

using namespace mlir;
using namespace g4::exec;

namespace g4 {

static constexpr int64_t kLanes = module::kLanes, kPage = module::kPageTokens, kBlock = module::kKvBlock;

KvPages::KvPages(TileBuilder &t, gguf::ElementType element, int64_t heads, int64_t dim)
    : t(t), dim(dim), layout(*kvLayout(element, heads, dim)) {}

KvPages::Place KvPages::place(V page, V head, int64_t plane) {
  auto at = [&](int64_t bits, int64_t start, int64_t headBytes) {
    int64_t elements = 8 * headBytes / bits;
    return t.add(t.add(t.mul(page, t.index(8 * layout.pageBytes() / bits)), t.index(8 * start / bits)),
                 t.mul(head, t.index(elements)));
  };
  int64_t planeBytes = layout.planeBytes(), scaleBytes = layout.scaleBytes(), heads = layout.heads;
  Place p{at(std::max(layout.bits, 8u), plane * planeBytes, planeBytes / heads), {}};
  if (isQuantised())
    p.scales = at(16, 2 * planeBytes + plane * scaleBytes, scaleBytes / heads);
  return p;
}

KvPages::Place KvPages::keys(V page, V head) { return place(page, head, 0); }
KvPages::Place KvPages::values(V page, V head) { return place(page, head, 1); }

void KvPages::prefetch(V at) {
  // Several queries take some 50 ns for two KB and memory answers in 100; the processor's own prefetcher stops at 4 KB.
  constexpr int64_t kAheadBytes = 2048;
  memref::PrefetchOp::create(t.b, t.loc, elements(), ValueRange{t.add(at, t.index(8 * kAheadBytes / std::max(layout.bits, 8u)))},
                             /*isWrite=*/false, /*localityHint=*/3, /*isDataCache=*/true);
}

Value KvPages::strip(V at, bool ahead) {
  if (ahead)
    prefetch(at);
  return t.loadStrip(elements(), {at});
}

Value KvPages::keyStrip(Place keys, V strip, V column, bool ahead) {
  return this->strip(t.add(keys.elements, t.mul(t.add(t.mul(strip, t.index(dim)), column), t.index(kLanes))), ahead);
}

Value KvPages::valueStrip(Place values, V slot, V column, bool ahead) {
  return strip(t.add(values.elements, t.add(t.mul(column, t.index(kPage)), t.mul(slot, t.index(kLanes)))), ahead);
}

Value KvPages::bytes(V at, bool ahead) {
  if (ahead)
    prefetch(at);
  return vector::LoadOp::create(t.b, t.loc, t.stripType(t.b.getI8Type()), elements(), ValueRange{at});
}

Value KvPages::toFloat(V i8) {
  Value wide = arith::ExtSIOp::create(t.b, t.loc, t.stripType(t.b.getI32Type()), i8);
  return arith::SIToFPOp::create(t.b, t.loc, t.stripType(t.b.getF32Type()), wide);
}

Value KvPages::half(V byte, bool high) {
  auto constant = [&](int8_t v) -> Value {
    return arith::ConstantOp::create(t.b, t.loc, DenseElementsAttr::get(t.stripType(t.b.getI8Type()), v));
  };
  Value code = high ? Value(arith::ShRUIOp::create(t.b, t.loc, byte, constant(4)))
                    : Value(arith::AndIOp::create(t.b, t.loc, byte, constant(15)));
  return toFloat(t.sub(code, constant(8)));
}

KvPages::Values KvPages::keyCodes(Place keys, V strip, V block, V j, bool ahead) {
  Value row = t.add(t.mul(t.add(t.mul(strip, t.index(blocks())), block), t.index(codeRows())), j);
  Value codes = bytes(t.add(keys.elements, t.mul(row, t.index(kLanes))), ahead);
  if (layout.bits == 8)
    return {toFloat(codes)};
  return {half(codes, false), half(codes, true)};
}

Value KvPages::keyScales(Place keys, V strip, V block) {
  Value row = t.add(t.mul(strip, t.index(blocks())), block);
  return t.loadStrip(scales(), {t.add(keys.scales, t.mul(row, t.index(kLanes)))});
}

Value KvPages::valueCodes(Place values, V slot, V block, int64_t half, bool ahead) {
  Value at = t.add(values.elements, t.mul(t.add(t.mul(block, t.index(kPage)), slot), t.index(codeRows())));
  if (layout.bits == 8)
    return toFloat(bytes(t.add(at, t.index(kLanes * half)), ahead));
  return this->half(bytes(at, ahead), half == 1);
}

Value KvPages::valueScales(Place values, V strip, V block) {
  Value at = t.add(t.mul(block, t.index(kPage)), t.mul(strip, t.index(kLanes)));
  return t.loadStrip(scales(), {t.add(values.scales, at)});
}

std::pair<KvPages::Values, Value> KvPages::quantise(V low, V high) {
  auto abs = [&](V x) -> Value { return math::AbsFOp::create(t.b, t.loc, x); };
  auto negate = [&](V x) -> Value { return arith::NegFOp::create(t.b, t.loc, x); };
  Value exact;
  float least = -127, most = 127;
  if (layout.bits == 8) {
    exact = t.divf(t.reduceMax(t.maxf(abs(low), abs(high))), t.f32(127));
  } else {
    // The value furthest from zero becomes code 0, that is -8 times the scale.
    Value up = t.reduceMax(t.maxf(low, high)), down = t.reduceMax(t.maxf(negate(low), negate(high)));
    Value isUp = arith::CmpFOp::create(t.b, t.loc, arith::CmpFPredicate::OGT, up, down);
    exact = t.divf(t.select(isUp, up, negate(down)), t.f32(-8));
    least = -8, most = 7;
  }
  Value scale = t.narrow(exact, t.b.getF16Type());
  // Codes count in steps of the scale that is stored, which a tiny block's may differ much from: they are clamped.
  Value step = arith::ExtFOp::create(t.b, t.loc, t.b.getF32Type(), scale);
  Value isZero = arith::CmpFOp::create(t.b, t.loc, arith::CmpFPredicate::OEQ, step, t.f32(0));
  Value inverse = t.lane(t.select(isZero, t.f32(0), t.divf(t.f32(1), step)));
  Values codes;
  for (Value x : {low, high}) {
    Value rounded = math::RoundEvenOp::create(t.b, t.loc, t.mulf(x, inverse));
    Value code = arith::MinNumFOp::create(t.b, t.loc, t.maxf(rounded, t.splat(least)), t.splat(most));
    codes.push_back(arith::FPToSIOp::create(t.b, t.loc, t.stripType(t.b.getI32Type()), code));
  }
  auto narrow = [&](V ints) -> Value {
    return arith::TruncIOp::create(t.b, t.loc, t.stripType(t.b.getI8Type()), ints);
  };
  if (layout.bits == 8)
    return {{narrow(codes[0]), narrow(codes[1])}, scale};
  auto constant = [&](int32_t v) -> Value {
    return arith::ConstantOp::create(t.b, t.loc, DenseElementsAttr::get(t.stripType(t.b.getI32Type()), v));
  };
  Value lower = t.add(codes[0], constant(8)), upper = t.mul(t.add(codes[1], constant(8)), constant(16));
  return {{narrow(t.add(lower, upper))}, scale};
}

void KvPages::storeKey(Place keys, V slot, V scratch, V row) {
  Value lanes = t.index(kLanes), strip = t.div(slot, lanes), lane = t.rem(slot, lanes);
  if (!isQuantised()) {
    Value base = t.add(t.add(keys.elements, t.mul(strip, t.index(dim * kLanes))), lane);
    Type element = cast<MemRefType>(elements().getType()).getElementType();
    t.forEach(t.index(0), t.index(dim), 1, [&](Value d) {
      t.store(t.narrow(t.load(scratch, {row, d}), element), elements(), {t.add(base, t.mul(d, lanes))});
    });
    return;
  }
  if (!codeScratch)
    codeScratch = t.scratch({kBlock}, t.b.getI8Type());
  t.forEach(t.index(0), t.index(blocks()), 1, [&](Value block) {
    Value column = t.mul(block, t.index(kBlock));
    auto [codes, scale] =
        quantise(t.loadStrip(scratch, {row, column}), t.loadStrip(scratch, {row, t.add(column, lanes)}));
    Value first = t.add(t.mul(strip, t.index(blocks())), block);
    t.store(scale, scales(), {t.add(t.add(keys.scales, t.mul(first, lanes)), lane)});
    for (auto [i, strip] : llvm::enumerate(codes))
      vector::StoreOp::create(t.b, t.loc, strip, codeScratch, ValueRange{t.index(kLanes * i)});
    Value base = t.add(t.add(keys.elements, t.mul(first, t.index(codeRows() * kLanes))), lane);
    t.forEach(t.index(0), t.index(codeRows()), 1, [&](Value j) {
      t.store(t.load(codeScratch, {j}), elements(), {t.add(base, t.mul(j, lanes))});
    });
  });
}

void KvPages::storeValue(Place values, V slot, V scratch, V row) {
  Value lanes = t.index(kLanes);
  if (!isQuantised()) {
    Value base = t.add(values.elements, t.mul(slot, t.index(kLanes)));
    t.forEach(t.index(0), t.index(dim), kLanes, [&](Value k) {
      t.storeStrip(t.loadStrip(scratch, {row, k}), elements(), {t.add(base, t.mul(k, t.index(kPage)))});
    });
    return;
  }
  t.forEach(t.index(0), t.index(blocks()), 1, [&](Value block) {
    Value column = t.mul(block, t.index(kBlock));
    auto [codes, scale] =
        quantise(t.loadStrip(scratch, {row, column}), t.loadStrip(scratch, {row, t.add(column, lanes)}));
    t.store(scale, scales(), {t.add(values.scales, t.add(t.mul(block, t.index(kPage)), slot))});
    Value base = t.add(values.elements, t.mul(t.add(t.mul(block, t.index(kPage)), slot), t.index(codeRows())));
    for (auto [i, strip] : llvm::enumerate(codes))
      vector::StoreOp::create(t.b, t.loc, strip, elements(), ValueRange{t.add(base, t.index(kLanes * i))});
  });
}

void KvPages::rotate(V scratch, V row, function_ref<void(V, V)> sink) {
  int64_t width = layout.rotationBlock(), strips = width / kLanes;
  float factor = 1 / std::sqrt(float(width));
  t.forEach(t.index(0), t.index(dim), width, [&](Value column) {
    auto columnOf = [&](int64_t i) { return t.add(column, t.index(kLanes * i)); };
    Values x;
    for (int64_t i = 0; i < strips; ++i)
      x.push_back(tile::HadamardOp::create(t.b, t.loc, t.stripType(t.b.getF32Type()), t.loadStrip(scratch, {row, columnOf(i)})));
    for (int64_t distance = 1; distance < strips; distance *= 2)
      for (int64_t i = 0; i < strips; ++i)
        if (!(i & distance)) {
          Value a = x[i], b = x[i + distance];
          x[i] = t.addf(a, b);
          x[i + distance] = t.subf(a, b);
        }
    for (int64_t i = 0; i < strips; ++i)
      sink(columnOf(i), t.mulf(x[i], t.splat(factor)));
  });
}

} // namespace g4
