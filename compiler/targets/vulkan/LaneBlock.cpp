#include "compiler/targets/vulkan/LaneBlock.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace g4::vulkan {

LaneBlock::LaneBlock(OpBuilder &b, tile::LoadQuantOp block, Value lane)
    : b(b), loc(block.getLoc()), words(block.getWeights()), lane(lane),
      layout(*module::packedLayout(gguf::stringifyElementType(block.getResult().getType().getElement()))) {
  V group = mul(block.getGroup(), index(layout.groupBytes(block.getColumns()) / 4));
  if (layout.isFloat) {
    codeBase = add(group, mul(block.getBlock(), index(32 * layout.superBytes() / 4)));
    return;
  }
  int64_t blocks = layout.superColumns / 32;
  blockInSuper = rem(block.getBlock(), blocks);
  superBase = add(group, mul(div(block.getBlock(), blocks), index(layout.superBytes() / 4)));
  codeBase = add(add(superBase, index(layout.headerBytes() / 4)),
                 mul(blockInSuper, index(layout.blockCodeBytes() / 4)));
  // What all columns share comes before the loops over them.
  for (unsigned half : {0, 1})
    scaleOf(half);
  addend();
}

bool LaneBlock::canDecode(const module::PackedLayout &layout) {
  using module::Scales;
  bool scales = layout.scales == Scales::kNone || layout.scales == Scales::kI8 || layout.scales == Scales::kU8;
  return layout.isFloat || (layout.codes == module::Codes::kPlanes && layout.bits >= 4 && scales);
}

Value LaneBlock::index(int64_t v) { return arith::ConstantIndexOp::create(b, loc, v); }
Value LaneBlock::i32(int64_t v) { return arith::ConstantIntOp::create(b, loc, v, 32); }
Value LaneBlock::toI32(V x) { return arith::IndexCastOp::create(b, loc, b.getI32Type(), x); }
Value LaneBlock::toF32(V x) { return arith::SIToFPOp::create(b, loc, b.getF32Type(), x); }
Value LaneBlock::add(V x, V y) { return arith::AddIOp::create(b, loc, x, y); }
Value LaneBlock::sub(V x, V y) { return arith::SubIOp::create(b, loc, x, y); }
Value LaneBlock::mul(V x, V y) { return arith::MulIOp::create(b, loc, x, y); }
Value LaneBlock::div(V x, int64_t y) { return arith::DivUIOp::create(b, loc, x, index(y)); }
Value LaneBlock::rem(V x, int64_t y) { return arith::RemUIOp::create(b, loc, x, index(y)); }
Value LaneBlock::mask(V x, int64_t bits) { return arith::AndIOp::create(b, loc, x, i32(bits)); }
Value LaneBlock::shiftLeft(V x, V n) { return arith::ShLIOp::create(b, loc, x, n); }
Value LaneBlock::shiftRight(V x, V n) { return arith::ShRUIOp::create(b, loc, x, n); }
Value LaneBlock::shiftRightSigned(V x, V n) { return arith::ShRSIOp::create(b, loc, x, n); }
Value LaneBlock::load(V word) { return memref::LoadOp::create(b, loc, words, word); }

Value LaneBlock::halfAt(V firstWord) {
  V bits = shiftRight(load(add(firstWord, div(lane, 2))), toI32(mul(rem(lane, 2), index(16))));
  if (StringRef(layout.name) == "bf16") // the upper half of an f32
    return arith::BitcastOp::create(b, loc, b.getF32Type(), shiftLeft(bits, i32(16)));
  V narrow = arith::TruncIOp::create(b, loc, b.getI16Type(), bits);
  V value = arith::BitcastOp::create(b, loc, b.getF16Type(), narrow);
  return arith::ExtFOp::create(b, loc, b.getF32Type(), value);
}

Value LaneBlock::header(int64_t offset) { return halfAt(add(superBase, index(offset / 4))); }

Value LaneBlock::smallAt(V firstWord, bool isSigned) {
  V bits = shiftRight(load(add(firstWord, div(lane, 4))), toI32(mul(rem(lane, 4), index(8))));
  return toF32(isSigned ? shiftRightSigned(shiftLeft(bits, i32(24)), i32(24)) : mask(bits, 0xff));
}

Value LaneBlock::scaleOf(unsigned half) {
  unsigned perBlock = layout.subBlocks * 32 / layout.superColumns; // 0: d is the scale
  unsigned subBlock = perBlock == 2 ? half : 0;
  V &scale = scales[subBlock];
  if (scale)
    return scale;
  scale = header(0);
  if (!perBlock)
    return scale;
  int64_t firstByte = 32 + (layout.hasMin ? 32 : 0) + 16 * subBlock;
  V at = add(mul(blockInSuper, index(4 * perBlock)), add(superBase, index(firstByte / 4)));
  // Scales are signed exactly where the format has no minima (q6_k).
  return scale = arith::MulFOp::create(b, loc, scale, smallAt(at, !layout.hasMin));
}

Value LaneBlock::addend() {
  if (!layout.hasMin || addendCache)
    return addendCache;
  addendCache = header(32);
  if (layout.subBlocks) {
    V at = add(mul(blockInSuper, index(4)), add(superBase, index((64 + 16 * layout.subBlocks) / 4)));
    addendCache =
        arith::NegFOp::create(b, loc, V(arith::MulFOp::create(b, loc, addendCache, smallAt(at, false))));
  }
  return addendCache;
}

Value LaneBlock::code(V column) {
  auto plane = [&](V j) { return load(add(codeBase, add(mul(j, index(16)), lane))); };
  V i = div(column, 4), byte = rem(column, 4), bitsBelow = toI32(mul(byte, index(8)));
  if (layout.bits == 8)
    return shiftRightSigned(shiftLeft(plane(i), sub(i32(24), bitsBelow)), i32(24));
  V h = div(column, 16), j = rem(i, 4);
  V v = mask(shiftRight(plane(j), add(bitsBelow, toI32(mul(h, index(4))))), 15);
  if (layout.bits == 5)
    v = add(v, shiftLeft(mask(shiftRight(plane(index(4)), add(bitsBelow, toI32(i))), 1), i32(4)));
  if (layout.bits == 6) {
    V high = shiftRight(plane(add(h, index(4))), add(bitsBelow, toI32(mul(j, index(2)))));
    v = add(v, shiftLeft(mask(high, 3), i32(4)));
  }
  return v;
}

Value LaneBlock::weight(V column) {
  if (layout.isFloat) {
    V first = add(codeBase, mul(column, index(layout.bits / 2))); // sixteen elements
    if (layout.bits == 32)
      return arith::BitcastOp::create(b, loc, b.getF32Type(), load(add(first, lane)));
    return halfAt(first);
  }
  V v = toF32(sub(code(column), i32(layout.zero))), scale = scaleOf(0);
  if (scaleOf(1) != scale) {
    V low = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, column, index(16));
    scale = arith::SelectOp::create(b, loc, low, scale, scaleOf(1));
  }
  if (V more = addend())
    return math::FmaOp::create(b, loc, v, scale, more);
  return arith::MulFOp::create(b, loc, v, scale);
}

SmallVector<Value> LaneBlock::overColumns(int64_t n, ArrayRef<V> init,
                                          function_ref<SmallVector<V>(V, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, index(0), index(n), index(1), init);
  OpBuilder::InsertionGuard guard(b);
  if (init.empty()) {
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), {});
  } else {
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  }
  return SmallVector<V>(loop.getResults());
}

SmallVector<Value> LaneBlock::dots(ArrayRef<tile::DotOp> dots) {
  // Two exact sums of each dot, one of each sixteen columns.
  SmallVector<V> zeros(2 * dots.size(), i32(0));
  auto totals = overColumns(16, zeros, [&](V c, ValueRange sums) {
    V columns[2] = {c, add(c, index(16))}, codes[2] = {code(columns[0]), code(columns[1])};
    SmallVector<V> next;
    for (auto [m, each] : llvm::enumerate(dots))
      for (unsigned half : {0, 1}) {
        tile::DotOp dot = each;
        V at = add(mul(dot.getColumnBlock(), index(32)), columns[half]);
        V q = memref::LoadOp::create(b, loc, dot.getQ(), ValueRange{dot.getRow(), at});
        q = arith::ExtSIOp::create(b, loc, b.getI32Type(), q);
        next.push_back(add(sums[2 * m + half], mul(codes[half], q)));
      }
    return next;
  });
  SmallVector<V> result;
  for (auto [m, each] : llvm::enumerate(dots)) {
    tile::DotOp dot = each;
    V two = mul(dot.getColumnBlock(), index(2)), xSum[2];
    for (unsigned half : {0, 1})
      xSum[half] =
          memref::LoadOp::create(b, loc, dot.getSums(), ValueRange{dot.getRow(), add(two, index(half))});
    V both = add(xSum[0], xSum[1]);
    V xScale = memref::LoadOp::create(b, loc, dot.getScale(), ValueRange{dot.getRow(), dot.getColumnBlock()});
    auto exact = [&](V sum, V xSum) { return toF32(sub(sum, mul(xSum, i32(layout.zero)))); };
    V scaled;
    if (scaleOf(1) == scaleOf(0)) {
      scaled = arith::MulFOp::create(b, loc, exact(add(totals[2 * m], totals[2 * m + 1]), both), scaleOf(0));
    } else {
      scaled = arith::MulFOp::create(b, loc, exact(totals[2 * m], xSum[0]), scaleOf(0));
      scaled = math::FmaOp::create(b, loc, exact(totals[2 * m + 1], xSum[1]), scaleOf(1), scaled);
    }
    V acc = math::FmaOp::create(b, loc, scaled, xScale, dot.getAcc());
    if (V more = addend())
      acc = math::FmaOp::create(b, loc, more, V(arith::MulFOp::create(b, loc, toF32(both), xScale)), acc);
    result.push_back(acc);
  }
  return result;
}

SmallVector<Value> LaneBlock::dotsF32(ArrayRef<tile::DotF32Op> dots) {
  SmallVector<V> init;
  for (tile::DotF32Op dot : dots)
    init.push_back(dot.getAcc());
  return overColumns(32, init, [&](V c, ValueRange sums) {
    V w = weight(c);
    SmallVector<V> next;
    for (auto [each, sum] : llvm::zip_equal(dots, sums)) {
      tile::DotF32Op dot = each;
      V at = add(mul(dot.getColumnBlock(), index(32)), c);
      V x = memref::LoadOp::create(b, loc, dot.getX(), ValueRange{dot.getRow(), at});
      next.push_back(math::FmaOp::create(b, loc, w, x, sum));
    }
    return next;
  });
}

void LaneBlock::dequant(V to) {
  overColumns(32, {}, [&](V c, ValueRange) -> SmallVector<V> {
    memref::StoreOp::create(b, loc, weight(c), to, ValueRange{c, lane});
    return {};
  });
}

} // namespace g4::vulkan
