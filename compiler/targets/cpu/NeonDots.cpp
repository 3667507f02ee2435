// Integer dot products with 128-bit vectors: `sdot`, and `smmla` where there are rows enough for it to pay.
#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

Value DotEmitter::sixteenColumns(tile::DotOp dot, unsigned first) {
  V &x = columns[{dot.getOperation(), first}];
  if (!x) {
    V column = add(mul(dot.getColumnBlock(), 32), index(first));
    x = vector::LoadOp::create(b, loc, vec(16, i8), dot.getQ(), ValueRange{dot.getRow(), column});
  }
  return x;
}

/// Of [a, b], two vectors of dwords: every second one from `first` on, or the low or high halves one by one.
static Value unzip(OpBuilder &b, Location loc, Value x, Value y, int64_t first) {
  return vector::ShuffleOp::create(b, loc, x, y, ArrayRef<int64_t>{first, first + 2, first + 4, first + 6});
}
static Value zip(OpBuilder &b, Location loc, Value x, Value y, int64_t first) {
  return vector::ShuffleOp::create(b, loc, x, y, ArrayRef<int64_t>{first, first + 4, first + 1, first + 5});
}

/// Four rows of each of two dots: `smmla` multiplies two rows of weights with two of activations, eight columns deep.
std::pair<Value, Value> DotEmitter::matrixDots(tile::DotOp one, tile::DotOp two, unsigned part, unsigned first, unsigned last) {
  VectorType own = vec(16, i8), sums = vec(4, i32), longs = vec(2, b.getI64Type());
  auto as = [&](VectorType type, V v) -> V { return vector::BitCastOp::create(b, loc, type, v); };
  V low = constant(sums, 0), high = low; // rows 0 and 1, rows 2 and 3: [row][dot]
  for (unsigned i = first; i < last; i += 2) {
    V left = as(sums, codes(i, part)), right = as(sums, codes(i + 1, part));
    unsigned sixteen = 4 * i / 16 * 16;
    int64_t half = 4 * i % 16 / 8;
    V x = as(own, vector::ShuffleOp::create(b, loc, as(longs, sixteenColumns(one, sixteen)), as(longs, sixteenColumns(two, sixteen)),
                                            ArrayRef<int64_t>{half, half + 2}));
    low = intrinsic("llvm.aarch64.neon.smmla.v4i32.v16i8", sums, {low, as(own, zip(b, loc, left, right, 0)), x});
    high = intrinsic("llvm.aarch64.neon.smmla.v4i32.v16i8", sums, {high, as(own, zip(b, loc, left, right, 2)), x});
  }
  return {unzip(b, loc, low, high, 0), unzip(b, loc, low, high, 1)};
}

Value DotEmitter::neonDot(tile::DotOp dot, unsigned part, unsigned first, unsigned last) {
  VectorType own = vec(16, i8), sums = vec(4, i32);
  V total = constant(sums, 0);
  for (unsigned i = first; i < last; ++i) {
    // One dword to all lanes: the instruction takes it from a vector by itself.
    V dwords = vector::BitCastOp::create(b, loc, sums, sixteenColumns(dot, 4 * i / 16 * 16));
    int64_t lane = 4 * i % 16 / 4;
    V x = vector::ShuffleOp::create(b, loc, dwords, dwords, ArrayRef<int64_t>{lane, lane, lane, lane});
    V operands[] = {total, codes(i, part), vector::BitCastOp::create(b, loc, own, x)};
    total = intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", sums, operands);
  }
  return total;
}

SmallVector<Value> DotEmitter::neonDots(ArrayRef<tile::DotOp> dots, unsigned first, unsigned last) {
  // The code vectors of two dwords are put together once for all rows: with fewer, that costs more than it saves.
  constexpr size_t kRowsForMatrices = 4;
  SmallVector<SmallVector<V>> byPart(dots.size());
  for (unsigned part = 0; part < parts; ++part) {
    size_t m = 0;
    if (isa == Isa::kI8mm && dots.size() >= kRowsForMatrices)
      for (; m + 1 < dots.size(); m += 2) {
        auto [one, two] = matrixDots(dots[m], dots[m + 1], part, first, last);
        byPart[m].push_back(one);
        byPart[m + 1].push_back(two);
      }
    for (; m < dots.size(); ++m)
      byPart[m].push_back(neonDot(dots[m], part, first, last));
  }
  SmallVector<V> result;
  for (auto &p : byPart)
    result.push_back(sixteenRows(p));
  return result;
}

} // namespace g4::cpu
