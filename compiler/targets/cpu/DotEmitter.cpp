#include "compiler/targets/cpu/DotEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

std::optional<Isa> parseIsa(StringRef name) {
  return llvm::StringSwitch<std::optional<Isa>>(name)
      .Case("avx2", Isa::kAvx2)
      .Case("avx-vnni", Isa::kAvxVnni)
      .Case("avx512-vnni", Isa::kAvx512Vnni)
      .Case("emulated", Isa::kEmulated)
      .Default(std::nullopt);
}

/// How many pmaddubsw results (two products each) fit into an int16 sum: codes are below 2^bits, activations
/// within +-127. 4 bits: 8 * 2 * 15 * 127 = 30480; 5: 4 * 2 * 31 * 127 = 31496; 6: 2 * 2 * 63 * 127 = 32004.
static unsigned sumsInInt16(unsigned bits) { return bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

DotEmitter::DotEmitter(OpBuilder &b, Location loc, Isa isa, tile::LoadQuantOp block)
    : b(b), loc(loc), isa(isa), memory(block.getWeights()),
      layout(*module::packedLayout(gguf::stringifyElementType(block.getResult().getType().getElement()))),
      i8(b.getI8Type()), i16(b.getI16Type()), i32(b.getI32Type()), f32(b.getF32Type()) {
  bool wide = isa == Isa::kAvx512Vnni || isa == Isa::kEmulated;
  width = wide ? 64 : 32;
  parts = wide ? 1 : 2;
  auto mul = [&](V x, int64_t y) -> V { return arith::MulIOp::create(b, loc, x, index(y)); };
  auto add = [&](V x, V y) -> V { return arith::AddIOp::create(b, loc, x, y); };
  V group = mul(block.getGroup(), layout.groupBytes(block.getColumns()));
  if (layout.isFloat) {
    codeBase = add(group, mul(block.getBlock(), 32 * layout.superBytes()));
    return;
  }
  int64_t blocks = layout.superColumns / 32;
  V super = blocks == 1 ? block.getBlock() : V(arith::DivUIOp::create(b, loc, block.getBlock(), index(blocks)));
  blockInSuper = blocks == 1 ? index(0) : V(arith::RemUIOp::create(b, loc, block.getBlock(), index(blocks)));
  superBase = add(group, mul(super, layout.superBytes()));
  codeBase = add(add(superBase, index(layout.headerBytes())), mul(blockInSuper, layout.blockCodeBytes()));
}

Value DotEmitter::index(int64_t v) { return arith::ConstantIndexOp::create(b, loc, v); }
Value DotEmitter::bytes(V offset, int64_t n) {
  return vector::LoadOp::create(b, loc, vec(n, i8), memory, ValueRange{offset});
}
Value DotEmitter::halves(int64_t offset) {
  V raw = bytes(arith::AddIOp::create(b, loc, superBase, index(offset)), 32);
  return arith::ExtFOp::create(b, loc, vec(16, f32), V(vector::BitCastOp::create(b, loc, vec(16, b.getF16Type()), raw)));
}
Value DotEmitter::small(V offset, bool isSigned) {
  V raw = bytes(offset, 16), wide;
  if (isSigned)
    wide = arith::ExtSIOp::create(b, loc, vec(16, i32), raw);
  else
    wide = arith::ExtUIOp::create(b, loc, vec(16, i32), raw);
  return arith::SIToFPOp::create(b, loc, vec(16, f32), wide);
}
Value DotEmitter::constant(VectorType type, int64_t v) {
  auto element = IntegerAttr::get(type.getElementType(), APInt(type.getElementTypeBitWidth(), uint64_t(v), false, true));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, element));
}
Value DotEmitter::intrinsic(StringRef name, Type result, ArrayRef<V> operands) {
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name), ValueRange(operands)).getResult(0);
}
Value DotEmitter::lane(V scalar) {
  return vector::BroadcastOp::create(b, loc, VectorType::get({16}, scalar.getType()), scalar);
}

Value DotEmitter::scaleOf(unsigned subBlock) {
  if (scales.empty()) {
    V d = halves(0);
    unsigned perBlock = layout.subBlocks ? layout.subBlocks * 32 / layout.superColumns : 0;
    if (!perBlock)
      scales.push_back(d);
    int64_t start = 32 + (layout.hasMin ? 32 : 0);
    for (unsigned i = 0; i < perBlock; ++i) {
      V at = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, blockInSuper, index(16 * perBlock)),
                                   arith::AddIOp::create(b, loc, superBase, index(start + 16 * i)));
      // Scales are signed exactly where the format has no minima (q6_k).
      scales.push_back(arith::MulFOp::create(b, loc, d, small(at, !layout.hasMin)));
    }
  }
  return scales[std::min<size_t>(subBlock, scales.size() - 1)];
}

Value DotEmitter::addend() {
  if (layout.hasMin && !addendCache) {
    addendCache = halves(32);
    if (layout.subBlocks) {
      int64_t start = 64 + 16 * layout.subBlocks;
      V at = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, blockInSuper, index(16)),
                                   arith::AddIOp::create(b, loc, superBase, index(start)));
      addendCache = arith::NegFOp::create(b, loc, arith::MulFOp::create(b, loc, addendCache, small(at, false)));
    }
  }
  return addendCache;
}

Value DotEmitter::plane(unsigned j, unsigned part) {
  V &v = planes[{j, part}];
  if (!v)
    v = bytes(arith::AddIOp::create(b, loc, codeBase, index(64 * j + part * width)), width);
  return v;
}

Value DotEmitter::highBits(unsigned i, unsigned part) {
  if (layout.bits == 4)
    return {};
  unsigned h = i / 4, j = i % 4;
  bool five = layout.bits == 5;
  V bits = plane(five ? 4 : 4 + h, part);
  unsigned shift = five ? 4 * h + j : 2 * j;
  VectorType words = vec(width / 2, i16), own = vec(width, i8);
  // Shifts are of 16-bit lanes: what crosses from the neighbouring byte is masked off.
  V moved = vector::BitCastOp::create(b, loc, words, bits);
  if (shift < 4)
    moved = arith::ShLIOp::create(b, loc, moved, constant(words, 4 - shift));
  else if (shift > 4)
    moved = arith::ShRUIOp::create(b, loc, moved, constant(words, shift - 4));
  return arith::AndIOp::create(b, loc, vector::BitCastOp::create(b, loc, own, moved), constant(own, five ? 0x10 : 0x30));
}

Value DotEmitter::codes(unsigned i, unsigned part) {
  V &v = codeCache[{i, part}];
  if (v)
    return v;
  if (layout.bits == 8)
    return v = plane(i, part);
  VectorType words = vec(width / 2, i16), own = vec(width, i8);
  V low = plane(i % 4, part);
  if (i >= 4)
    low = vector::BitCastOp::create(
        b, loc, own,
        arith::ShRUIOp::create(b, loc, vector::BitCastOp::create(b, loc, words, low), constant(words, 4)));
  low = arith::AndIOp::create(b, loc, low, constant(own, 0x0f));
  if (V high = highBits(i, part))
    low = arith::OrIOp::create(b, loc, low, high);
  return v = low;
}

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

/// Exact sums over code vectors [first, last) of each dot, sixteen rows. 8-bit codes are taken as they are on AVX2
/// and with 128 added on VNNI (see `zero` in dots()).
SmallVector<Value> DotEmitter::integerDots(ArrayRef<tile::DotOp> dots, unsigned first, unsigned last) {
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
      if (layout.bits == 8)
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
        if (layout.bits == 8)
          x = intrinsic("llvm.x86.avx2.psign.b", own, {x, code});
        V pairs = intrinsic("llvm.x86.avx2.pmadd.ub.sw", words, {magnitude ? magnitude : code, x});
        pending[m] = pending[m] ? V(arith::AddIOp::create(b, loc, pending[m], pairs)) : pairs;
      }
      if (isa == Isa::kAvx2 && (++added % sumsInInt16(layout.bits) == 0 || i + 1 == last))
        for (size_t m = 0; m < dots.size(); ++m)
          widen(m);
    }
    for (size_t m = 0; m < dots.size(); ++m)
      byPart[m].push_back(total[m]);
  }
  SmallVector<V> result;
  SmallVector<int64_t> both;
  for (int64_t l = 0; l < 16; ++l)
    both.push_back(l);
  for (auto &p : byPart)
    result.push_back(parts == 1 ? p[0] : V(vector::ShuffleOp::create(b, loc, p[0], p[1], both)));
  return result;
}

SmallVector<Value> DotEmitter::dots(ArrayRef<tile::DotOp> dots) {
  unsigned subBlocks = layout.subBlocks * 32 > layout.superColumns ? 2 : 1;
  int64_t zero = layout.bits == 8 && isa != Isa::kAvx2 ? 128 : layout.zero;
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
    if (V more = addend()) {
      V sum = arith::MulFOp::create(b, loc, arith::SIToFPOp::create(b, loc, f32, both), xScale);
      acc = math::FmaOp::create(b, loc, more, lane(sum), acc);
    }
    result.push_back(acc);
  }
  return result;
}

Value DotEmitter::column(unsigned c) {
  if (layout.isFloat) {
    int64_t size = layout.bits / 8;
    V raw = bytes(arith::AddIOp::create(b, loc, codeBase, index(c * 16 * size)), 16 * size);
    if (size == 4)
      return vector::BitCastOp::create(b, loc, vec(16, f32), raw);
    Type half = StringRef(layout.name) == "bf16" ? Type(b.getBF16Type()) : Type(b.getF16Type());
    return arith::ExtFOp::create(b, loc, vec(16, f32), V(vector::BitCastOp::create(b, loc, vec(16, half), raw)));
  }
  VectorType ints = vec(16, i32);
  unsigned i = c / 4, byte = c % 4;
  SmallVector<V> dwords;
  for (unsigned part = 0; part < parts; ++part)
    dwords.push_back(vector::BitCastOp::create(b, loc, vec(width / 4, i32), codes(i, part)));
  V v = dwords[0];
  if (parts == 2) {
    SmallVector<int64_t> both;
    for (int64_t l = 0; l < 16; ++l)
      both.push_back(l);
    v = vector::ShuffleOp::create(b, loc, dwords[0], dwords[1], both);
  }
  if (layout.bits == 8) {
    if (byte < 3)
      v = arith::ShLIOp::create(b, loc, v, constant(ints, 24 - 8 * byte));
    v = arith::ShRSIOp::create(b, loc, v, constant(ints, 24));
  } else {
    if (byte)
      v = arith::ShRUIOp::create(b, loc, v, constant(ints, 8 * byte));
    v = arith::AndIOp::create(b, loc, v, constant(ints, 0xff));
  }
  if (layout.zero)
    v = arith::SubIOp::create(b, loc, v, constant(ints, layout.zero));
  V value = arith::SIToFPOp::create(b, loc, vec(16, f32), v), scale = scaleOf(c / 16);
  if (V more = addend())
    return math::FmaOp::create(b, loc, value, scale, more);
  return arith::MulFOp::create(b, loc, value, scale);
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
