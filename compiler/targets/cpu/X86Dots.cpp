// Integer dot products with 256- and 512-bit vectors: pmaddubsw, or vpdpbusd where there is one.
#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

/// A pmaddubsw result is a sum of two products; activations are within +-127.
unsigned DotEmitter::sumsInInt16() const { return std::max(1, 32767 / (2 * 127 * layout.largest)); }

Value DotEmitter::multiplyAdd(V acc, V u, V x) {
  VectorType sums = vec(width / 4, i32);
  if (isa == Isa::kAvxVnni)
    return intrinsic("llvm.x86.avx512.vpdpbusd.256", sums, {acc, u, x});
  if (isa == Isa::kAvx512Vnni)
    return intrinsic("llvm.x86.avx512.vpdpbusd.512", sums, {acc, u, x});
  for (int64_t byte = 0; byte < 4; ++byte) {
    SmallVector<int64_t> picks;
    for (int64_t l = 0; l < width / 4; ++l)
      picks.push_back(4 * l + byte);
    V a = arith::ExtUIOp::create(b, loc, sums, vector::ShuffleOp::create(b, loc, u, u, picks));
    V c = arith::ExtSIOp::create(b, loc, sums, vector::ShuffleOp::create(b, loc, x, x, picks));
    acc = arith::AddIOp::create(b, loc, acc, arith::MulIOp::create(b, loc, a, c));
  }
  return acc;
}

Value DotEmitter::activations(tile::DotOp dot, V i) {
  V column = add(mul(dot.getColumnBlock(), 32), mul(i, 4));
  V four = vector::LoadOp::create(b, loc, vec(4, i8), dot.getQ(), ValueRange{dot.getRow(), column});
  V word = vector::ExtractOp::create(b, loc, vector::BitCastOp::create(b, loc, vec(1, i32), four), 0);
  return vector::BitCastOp::create(b, loc, vec(width, i8), V(vector::BroadcastOp::create(b, loc, vec(width / 4, i32), word)));
}

DotEmitter::Sums DotEmitter::zeros(size_t n, Type element, int64_t lanes) { return Sums(n, constant(vec(lanes, element), 0)); }

DotEmitter::Sums DotEmitter::loop(unsigned first, unsigned last, unsigned by, ArrayRef<V> init,
                                  function_ref<Sums(V, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, index(first), index(last), index(by), ValueRange(init));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return Sums(loop.getResults());
}

DotEmitter::Sums DotEmitter::step(Dots dots, V i, ArrayRef<V> codes, ArrayRef<V> sums) {
  bool avx2 = isa == Isa::kAvx2, isSigned = layout.hasSignedCodes();
  VectorType own = vec(width, i8), words = vec(width / 2, i16);
  SmallVector<V> magnitudes;
  for (V code : codes)
    magnitudes.push_back(!isSigned ? code
                         : avx2    ? V(math::AbsIOp::create(b, loc, code))
                                   : V(arith::XOrIOp::create(b, loc, code, constant(own, 0x80))));
  Sums next;
  for (tile::DotOp dot : dots) {
    V x = activations(dot, i);
    for (unsigned part = 0; part < parts; ++part) {
      V sum = sums[next.size()];
      if (!avx2) {
        next.push_back(multiplyAdd(sum, magnitudes[part], x));
        continue;
      }
      V signedX = isSigned ? intrinsic("llvm.x86.avx2.psign.b", own, {x, codes[part]}) : x;
      V pairs = intrinsic("llvm.x86.avx2.pmadd.ub.sw", words, {magnitudes[part], signedX});
      next.push_back(arith::AddIOp::create(b, loc, sum, pairs));
    }
  }
  return next;
}

DotEmitter::Sums DotEmitter::widen(ArrayRef<V> pairs, ArrayRef<V> sums) {
  Sums next;
  for (auto [pair, sum] : llvm::zip_equal(pairs, sums)) {
    V wide = intrinsic("llvm.x86.avx2.pmadd.wd", vec(width / 4, i32), {pair, constant(vec(width / 2, i16), 1)});
    next.push_back(arith::AddIOp::create(b, loc, sum, wide));
  }
  return next;
}

/// A block that is decoded here: which bits a code has depends on its number.
DotEmitter::Sums DotEmitter::unrolled(Dots dots, unsigned first, unsigned last) {
  size_t n = dots.size() * parts;
  Sums total = zeros(n, i32, width / 4), pairs;
  for (unsigned i = first; i < last; ++i) {
    SmallVector<V> ofParts;
    for (unsigned part = 0; part < parts; ++part)
      ofParts.push_back(codes(i, part));
    if (isa != Isa::kAvx2) {
      total = step(dots, index(i), ofParts, total);
      continue;
    }
    pairs = step(dots, index(i), ofParts, pairs.empty() ? zeros(n, i16, width / 2) : pairs);
    if ((i + 1 - first) % sumsInInt16() == 0 || i + 1 == last) {
      total = widen(pairs, total);
      pairs.clear();
    }
  }
  return total;
}

/// A decoded block, as loops: the sums of all rows stay in registers, where the optimiser, given straight code, goes row
/// by row, loads every code again for each and is half as fast.
DotEmitter::Sums DotEmitter::looped(Dots dots, unsigned first, unsigned last) {
  size_t n = dots.size() * parts;
  auto stepAt = [&](V i, ValueRange sums) {
    SmallVector<V> ofParts;
    for (unsigned part = 0; part < parts; ++part)
      ofParts.push_back(codesAt(i, part));
    return step(dots, i, ofParts, SmallVector<V>(sums));
  };
  if (isa != Isa::kAvx2)
    return loop(first, last, 1, zeros(n, i32, width / 4), stepAt);
  // 8 or 4 vectors: a power of two of them divides the loop.
  unsigned fit = std::min(llvm::bit_floor(sumsInInt16()), last - first);
  auto run = [&](V from, ValueRange total) {
    Sums pairs = zeros(n, i16, width / 2);
    if (fit <= 2)
      for (unsigned i = 0; i < fit; ++i)
        pairs = stepAt(add(from, index(i)), pairs);
    else
      pairs = loop(0, fit, 1, pairs, [&](V i, ValueRange sums) { return stepAt(add(from, i), sums); });
    return widen(pairs, SmallVector<V>(total));
  };
  Sums none = zeros(n, i32, width / 4);
  return fit == last - first ? run(index(first), none) : loop(first, last, fit, none, run);
}

DotEmitter::Sums DotEmitter::x86Dots(Dots dots, unsigned first, unsigned last) {
  Sums sums = isDecoded() ? looped(dots, first, last) : unrolled(dots, first, last), result;
  for (size_t m = 0; m < dots.size(); ++m)
    result.push_back(sixteenRows(ArrayRef(sums).slice(m * parts, parts)));
  return result;
}

} // namespace g4::cpu
