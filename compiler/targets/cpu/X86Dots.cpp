// Integer dot products with 256- and 512-bit vectors: pmaddubsw, or vpdpbusd where there is one.
#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

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

/// Keeps the order of code vectors: the optimiser, given straight code, would go row by row, hold or load every code again
/// for each, and be half as fast. An empty instruction that reads and writes the sums of all rows stands between.
DotEmitter::Sums DotEmitter::ordered(ArrayRef<V> sums) {
  if (isa == Isa::kEmulated || sums.size() <= parts) // vectors wider than registers; nothing to mix up
    return Sums(sums);
  SmallVector<Type> types;
  std::string outputs, inputs;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    types.push_back(sum.getType());
    outputs += i ? ",=v" : "=v";
    inputs += "," + std::to_string(i);
  }
  auto all = LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  V same = LLVM::InlineAsmOp::create(b, loc, all, ValueRange(sums), "", outputs + inputs, /*has_side_effects=*/true, /*is_align_stack=*/false,
                                     LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
               .getRes();
  Sums next;
  for (int64_t i = 0; i < int64_t(sums.size()); ++i)
    next.push_back(LLVM::ExtractValueOp::create(b, loc, same, i));
  return next;
}

DotEmitter::Sums DotEmitter::x86Sums(Dots dots, unsigned first, unsigned last) {
  size_t n = dots.size() * parts;
  Sums total = zeros(n, i32, width / 4), pairs;
  unsigned taken = 0; // code vectors in `pairs`
  for (unsigned i : inOrder(first, last)) {
    SmallVector<V> ofParts;
    for (unsigned part = 0; part < parts; ++part)
      ofParts.push_back(codes(i, part));
    if (isa != Isa::kAvx2) {
      total = ordered(step(dots, index(i), ofParts, total));
      continue;
    }
    pairs = ordered(step(dots, index(i), ofParts, pairs.empty() ? zeros(n, i16, width / 2) : pairs));
    if (++taken % layout.sumsInInt16() == 0 || taken == last - first) {
      total = widen(pairs, total);
      pairs.clear();
    }
  }
  return total;
}

DotEmitter::Sums DotEmitter::x86Dots(Dots dots, unsigned first, unsigned last) {
  Sums sums = x86Sums(dots, first, last), result;
  for (size_t m = 0; m < dots.size(); ++m)
    result.push_back(sixteenRows(ArrayRef(sums).slice(m * parts, parts)));
  return result;
}

} // namespace g4::cpu
