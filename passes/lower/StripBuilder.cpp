#include "passes/lower/StripBuilder.h"

using namespace mlir;

namespace g4 {

Value StripBuilder::index(int64_t v) { return arith::ConstantIndexOp::create(b, loc, v); }
Value StripBuilder::i32(int32_t v) { return arith::ConstantIntOp::create(b, loc, v, 32); }
Value StripBuilder::f32(float v) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(v)); }
Value StripBuilder::splat(float v) {
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(stripType(b.getF32Type()), v));
}
Value StripBuilder::like(V shaped, float v) { return isa<VectorType>(shaped.getType()) ? splat(v) : f32(v); }
Value StripBuilder::add(V x, V y) { return arith::AddIOp::create(b, loc, x, y); }
Value StripBuilder::sub(V x, V y) { return arith::SubIOp::create(b, loc, x, y); }
Value StripBuilder::mul(V x, V y) { return arith::MulIOp::create(b, loc, x, y); }
// Unsigned: no index here is negative, and nearly all divisors are constants that become shifts.
Value StripBuilder::div(V x, V y) { return arith::DivUIOp::create(b, loc, x, y); }
Value StripBuilder::rem(V x, V y) { return arith::RemUIOp::create(b, loc, x, y); }
Value StripBuilder::ceilDiv(V x, int64_t y) { return div(add(x, index(y - 1)), index(y)); }
Value StripBuilder::min(V x, V y) { return arith::MinUIOp::create(b, loc, x, y); }
Value StripBuilder::max(V x, V y) { return arith::MaxUIOp::create(b, loc, x, y); }
Value StripBuilder::addf(V x, V y) { return arith::AddFOp::create(b, loc, x, y); }
Value StripBuilder::subf(V x, V y) { return arith::SubFOp::create(b, loc, x, y); }
Value StripBuilder::mulf(V x, V y) { return arith::MulFOp::create(b, loc, x, y); }
Value StripBuilder::divf(V x, V y) { return arith::DivFOp::create(b, loc, x, y); }
Value StripBuilder::fma(V x, V y, V z) { return math::FmaOp::create(b, loc, x, y, z); }
// maxnum: one instruction, and no operand here is NaN unless the result is lost anyway.
Value StripBuilder::maxf(V x, V y) { return arith::MaxNumFOp::create(b, loc, x, y); }

Value StripBuilder::loadStrip(V memref, ValueRange at) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Value v = vector::LoadOp::create(b, loc, stripType(element), memref, at);
  if (element != b.getF32Type())
    v = arith::ExtFOp::create(b, loc, stripType(b.getF32Type()), v);
  return v;
}

void StripBuilder::storeStrip(V value, V memref, ValueRange at) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  if (element != b.getF32Type())
    value = narrow(value, element);
  vector::StoreOp::create(b, loc, value, memref, at);
}

Value StripBuilder::narrow(V value, Type element) {
  if (element == b.getF32Type())
    return value;
  auto shaped = dyn_cast<VectorType>(value.getType());
  auto as = [&](Type t) -> Type { return shaped ? Type(stripType(t)) : t; };
  if (element == b.getF16Type())
    return arith::TruncFOp::create(b, loc, as(element), value);
  // bf16, round to nearest even, in integers: without AVX512-BF16 the compiler would call a library function.
  auto constant = [&](int32_t v) -> Value {
    if (shaped)
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(stripType(b.getI32Type()), v));
    return i32(v);
  };
  Value bits = arith::BitcastOp::create(b, loc, as(b.getI32Type()), value);
  Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, constant(16)), constant(1));
  Value rounded = arith::ShRUIOp::create(b, loc, add(add(bits, constant(0x7fff)), odd), constant(16));
  Value half = arith::TruncIOp::create(b, loc, as(b.getI16Type()), rounded);
  return arith::BitcastOp::create(b, loc, as(element), half);
}

void StripBuilder::forEach(V lower, V upper, int64_t step, function_ref<void(V)> body) {
  auto loop = scf::ForOp::create(b, loc, lower, upper, index(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

StripBuilder::Values StripBuilder::loop(V lower, V upper, int64_t step, ValueRange init,
                                      function_ref<Values(V, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, lower, upper, index(step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, loc, next);
  return Values(loop.getResults());
}

void StripBuilder::ifThen(V condition, function_ref<void()> then, function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, loc, condition, bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  then();
  if (!otherwise)
    return;
  b.setInsertionPoint(op.elseBlock()->getTerminator());
  otherwise();
}

Value StripBuilder::ifElse(V condition, function_ref<V()> then, function_ref<V()> otherwise) {
  auto yielding = [](function_ref<V()> body) {
    return [body](OpBuilder &b, Location loc) { scf::YieldOp::create(b, loc, body()); };
  };
  return scf::IfOp::create(b, loc, condition, yielding(then), yielding(otherwise)).getResult(0);
}

} // namespace g4
