#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

DotEmitter::Sums DotEmitter::integerDots(Dots dots, unsigned first, unsigned last) {
  return isNeon(isa) ? neonDots(dots, first, last) : x86Dots(dots, first, last);
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

void DotEmitter::decode(V panel, V slot) {
  auto store = [&](V v, int64_t at) { vector::StoreOp::create(b, loc, v, panel, ValueRange{slot, index(at)}); };
  for (unsigned i = 0; i < 8; ++i)
    for (unsigned part = 0; part < parts; ++part)
      store(codes(i, part), 64 * i + part * width);
  SmallVector<V> strips;
  for (unsigned s = 0; s < subBlocks(); ++s)
    strips.push_back(scaleOf(s));
  for (unsigned s = 0; s < subBlocks() && layout.hasMin; ++s)
    strips.push_back(addend(s));
  for (auto [n, strip] : llvm::enumerate(strips))
    store(vector::BitCastOp::create(b, loc, vec(tile::kDecodedStripBytes, i8), strip),
          tile::kDecodedCodeBytes + n * tile::kDecodedStripBytes);
}

void DotEmitter::dequant(V scratch) {
  for (unsigned c = 0; c < 32; ++c)
    vector::StoreOp::create(b, loc, column(c), scratch, ValueRange{index(c), index(0)});
}

} // namespace g4::cpu
