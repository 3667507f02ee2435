#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

/// How many pmaddubsw results (two products each) fit into an int16 sum: activations are within +-127.
static unsigned sumsInInt16(int32_t largestCode) { return std::max(1, 32767 / (2 * 127 * largestCode)); }

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

/// Exact sums over code vectors [first, last) of each dot, sixteen rows. Signed codes are taken as they are on AVX2
/// and with 128 added on VNNI (see `zero` in dots()).
SmallVector<Value> DotEmitter::integerDots(ArrayRef<tile::DotOp> dots, unsigned first, unsigned last) {
  if (isNeon(isa))
    return neonDots(dots, first, last);
  VectorType own = vec(width, i8), words = vec(width / 2, i16), sums = vec(width / 4, i32);
  SmallVector<SmallVector<V>> byPart(dots.size());
  for (unsigned part = 0; part < parts; ++part) {
    SmallVector<V> total(dots.size()), pending(dots.size());
    auto widen = [&](size_t m) {
      V wide = intrinsic("llvm.x86.avx2.pmadd.wd", sums, {pending[m], constant(words, 1)});
      total[m] = total[m] ? V(arith::AddIOp::create(b, loc, total[m], wide)) : wide;
      pending[m] = {};
    };
    unsigned added = 0;
    for (unsigned i = first; i < last; ++i) {
      V code = codes(i, part), magnitude;
      if (layout.hasSignedCodes())
        magnitude = isa == Isa::kAvx2 ? V(math::AbsIOp::create(b, loc, code))
                                      : V(arith::XOrIOp::create(b, loc, code, constant(own, 0x80)));
      for (auto [m, each] : llvm::enumerate(dots)) {
        tile::DotOp dot = each;
        V column = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, dot.getColumnBlock(), index(32)), index(4 * i));
        V four = vector::LoadOp::create(b, loc, vec(4, i8), dot.getQ(), ValueRange{dot.getRow(), column});
        V word = vector::ExtractOp::create(b, loc, vector::BitCastOp::create(b, loc, vec(1, i32), four), 0);
        V x = vector::BitCastOp::create(b, loc, own, vector::BroadcastOp::create(b, loc, sums, word));
        if (isa != Isa::kAvx2) {
          V start = total[m] ? total[m] : constant(sums, 0);
          total[m] = multiplyAdd(start, magnitude ? magnitude : code, x);
          continue;
        }
        if (layout.hasSignedCodes())
          x = intrinsic("llvm.x86.avx2.psign.b", own, {x, code});
        V pairs = intrinsic("llvm.x86.avx2.pmadd.ub.sw", words, {magnitude ? magnitude : code, x});
        pending[m] = pending[m] ? V(arith::AddIOp::create(b, loc, pending[m], pairs)) : pairs;
      }
      if (isa == Isa::kAvx2 && (++added % sumsInInt16(layout.largest) == 0 || i + 1 == last))
        for (size_t m = 0; m < dots.size(); ++m)
          widen(m);
    }
    for (size_t m = 0; m < dots.size(); ++m)
      byPart[m].push_back(total[m]);
  }
  SmallVector<V> result;
  for (auto &p : byPart)
    result.push_back(sixteenRows(p));
  return result;
}

SmallVector<Value> DotEmitter::dots(ArrayRef<tile::DotOp> dots) {
  unsigned subBlocks = this->subBlocks();
  int64_t zero = layout.hasSignedCodes() && isa != Isa::kAvx2 && !isNeon(isa) ? 128 : layout.zero;
  VectorType floats = vec(16, f32);
  SmallVector<SmallVector<V>> partial;
  for (unsigned s = 0; s < subBlocks; ++s)
    partial.push_back(integerDots(dots, s * 8 / subBlocks, (s + 1) * 8 / subBlocks));
  SmallVector<V> result;
  for (auto [m, each] : llvm::enumerate(dots)) {
    tile::DotOp dot = each;
    V two = arith::MulIOp::create(b, loc, dot.getColumnBlock(), index(2));
    V sum0 = memref::LoadOp::create(b, loc, dot.getSums(), ValueRange{dot.getRow(), two});
    V sum1 = memref::LoadOp::create(b, loc, dot.getSums(), ValueRange{dot.getRow(), arith::AddIOp::create(b, loc, two, index(1))});
    V both = arith::AddIOp::create(b, loc, sum0, sum1);
    V xScale = memref::LoadOp::create(b, loc, dot.getScale(), ValueRange{dot.getRow(), dot.getColumnBlock()});
    auto exact = [&](unsigned s) -> V {
      V v = partial[s][m];
      if (zero) {
        V sum = subBlocks == 2 ? (s ? sum1 : sum0) : both;
        V z = arith::ConstantIntOp::create(b, loc, zero, 32);
        v = arith::SubIOp::create(b, loc, v, lane(arith::MulIOp::create(b, loc, sum, z)));
      }
      return arith::SIToFPOp::create(b, loc, floats, v);
    };
    V scaled = arith::MulFOp::create(b, loc, exact(0), scaleOf(0));
    if (subBlocks == 2)
      scaled = math::FmaOp::create(b, loc, exact(1), scaleOf(1), scaled);
    V acc = math::FmaOp::create(b, loc, scaled, lane(xScale), dot.getAcc());
    for (unsigned s = 0; s < subBlocks && layout.hasMin; ++s) {
      V codes = subBlocks == 1 ? both : s ? sum1 : sum0;
      V sum = arith::MulFOp::create(b, loc, arith::SIToFPOp::create(b, loc, f32, codes), xScale);
      acc = math::FmaOp::create(b, loc, addend(s), lane(sum), acc);
    }
    result.push_back(acc);
  }
  return result;
}

SmallVector<Value> DotEmitter::dotsF32(ArrayRef<tile::DotF32Op> dots) {
  SmallVector<V> sums;
  for (tile::DotF32Op dot : dots)
    sums.push_back(dot.getAcc());
  for (unsigned c = 0; c < 32; ++c) {
    V w = column(c);
    for (auto [m, d] : llvm::enumerate(dots)) {
      tile::DotF32Op dot = d;
      V at = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, dot.getColumnBlock(), index(32)), index(c));
      V x = memref::LoadOp::create(b, loc, dot.getX(), ValueRange{dot.getRow(), at});
      sums[m] = math::FmaOp::create(b, loc, w, lane(x), sums[m]);
    }
  }
  return sums;
}

void DotEmitter::dequant(V scratch) {
  for (unsigned c = 0; c < 32; ++c)
    vector::StoreOp::create(b, loc, column(c), scratch, ValueRange{index(c), index(0)});
}

} // namespace g4::cpu
