#include "passes/lower/TileBuilder.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {

TileBuilder::TileBuilder(KernelOp kernel) : StripBuilder(OpBuilder(kernel.getContext()), kernel.getLoc()) {
  entry = b.createBlock(&kernel.getBody());
  for (const Argument &a : signatureOf(kernel.getSpec()))
    arguments[a.name] = entry->addArgument(a.type(), loc);
  begin = entry->addArgument(b.getIndexType(), loc);
  end = entry->addArgument(b.getIndexType(), loc);
  EndOp::create(b, loc);
  b.setInsertionPoint(entry->getTerminator());
}

Activation TileBuilder::activation(StringRef name) const {
  return {arg(name), arg((name + ".q").str()), arg((name + ".scale").str()), arg((name + ".sums").str())};
}

Value TileBuilder::scratch(ArrayRef<int64_t> shape, Type element) {
  // At the entry, outside every loop: an alloca in a loop would grow the stack with each turn.
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  return memref::AllocaOp::create(b, loc, MemRefType::get(shape, element), b.getI64IntegerAttr(64));
}

Activation TileBuilder::scratchActivation(int64_t rows, int64_t columns, InputForms forms) {
  Activation a;
  if (forms.f32)
    a.f32 = scratch({rows, columns});
  if (forms.q8) {
    a.q = scratch({rows, columns}, b.getI8Type());
    a.scale = scratch({rows, columns / 32});
    a.sums = scratch({rows, columns / 16}, b.getI32Type());
  }
  return a;
}

void TileBuilder::forItemBlocks(V count, int64_t rowsPerItem, int64_t perBlock,
                                function_ref<void(V, V, V, V)> body) {
  Value per = index(perBlock);
  forEach(div(begin, per), ceilDiv(end, perBlock), 1, [&](V block) {
    Value firstItem = mul(block, per);
    Value lo = sub(max(begin, firstItem), firstItem);
    Value hi = sub(min(end, add(firstItem, per)), firstItem);
    Value row = mul(block, index(rowsPerItem));
    body(row, min(index(rowsPerItem), sub(count, row)), lo, hi);
  });
}

Value TileBuilder::exp(V x) {
  // 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2; degree 6 (Cephes' coefficients): about 1 ulp.
  // Below -87.3 the result would be subnormal: it is the smallest normal number, which no sum here can tell from 0.
  x = arith::MinNumFOp::create(b, loc, maxf(x, like(x, -87.3f)), like(x, 88.3f));
  Value n = math::RoundEvenOp::create(b, loc, mulf(x, like(x, 1.44269504f)));
  Value r = fma(n, like(x, -0.693359375f), x);
  r = fma(n, like(x, 2.12194440e-4f), r);
  Value p = like(x, 1.9875691500e-4f);
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = fma(p, r, like(x, c));
  p = fma(mulf(p, r), r, addf(r, like(x, 1.0f)));
  bool strip = isa<VectorType>(x.getType());
  Type ints = strip ? Type(stripType(b.getI32Type())) : Type(b.getI32Type());
  auto constant = [&](int32_t v) -> Value {
    if (strip)
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(cast<VectorType>(ints), v));
    return i32(v);
  };
  Value power = arith::FPToSIOp::create(b, loc, ints, n);
  power = arith::ShLIOp::create(b, loc, add(power, constant(127)), constant(23));
  return mulf(p, arith::BitcastOp::create(b, loc, x.getType(), power));
}

Value TileBuilder::gelu(V x) {
  // 0.5 x (1 + tanh(u)) = x / (1 + e^-2u): the same function without the cancellation for large negative x.
  Value u = mulf(fma(mulf(mulf(x, x), x), like(x, 0.044715f), x), like(x, 0.7978845608f));
  return divf(x, addf(like(x, 1.0f), exp(mulf(u, like(x, -2.0f)))));
}

Value TileBuilder::tanh(V x) {
  Value e = exp(mulf(x, like(x, 2.0f)));
  return subf(like(x, 1.0f), divf(like(x, 2.0f), addf(e, like(x, 1.0f))));
}

Value TileBuilder::reduceSum(V strip) {
  Type element = cast<VectorType>(strip.getType()).getElementType();
  return tile::ReduceOp::create(b, loc, element, tile::ReductionAttr::get(b.getContext(), tile::Reduction::sum), strip);
}
Value TileBuilder::reduceMax(V strip) {
  Type element = cast<VectorType>(strip.getType()).getElementType();
  return tile::ReduceOp::create(b, loc, element, tile::ReductionAttr::get(b.getContext(), tile::Reduction::max), strip);
}

Value TileBuilder::rmsFactor(int64_t n, float eps, function_ref<V(V)> strip) {
  Value sum = loop(index(0), index(n), module::kLanes, {splat(0)}, [&](V k, ValueRange acc) -> Values {
    Value v = strip(k);
    return {fma(v, v, acc[0])};
  })[0];
  Value mean = divf(reduceSum(sum), f32(float(n)));
  return divf(f32(1.0f), math::SqrtOp::create(b, loc, addf(mean, f32(eps))));
}

void TileBuilder::writeActivation(const Activation &to, V row, V at, int64_t n, function_ref<V(V)> strip) {
  Value sixteen = index(16);
  forEach(index(0), index(n), 32, [&](V k) {
    Value x0 = strip(k), x1 = strip(add(k, sixteen));
    Value column = add(at, k), column1 = add(column, sixteen);
    if (to.f32) {
      storeStrip(x0, to.f32, {row, column});
      storeStrip(x1, to.f32, {row, column1});
    }
    if (!to.q)
      return;
    Value largest = reduceMax(maxf(math::AbsFOp::create(b, loc, x0), math::AbsFOp::create(b, loc, x1)));
    Value scale = divf(largest, f32(127.0f));
    Value positive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, largest, f32(0));
    Value inverse = lane(select(positive, divf(f32(127.0f), largest), f32(0)));
    store(scale, to.scale, {row, div(column, index(32))});
    Value c = column;
    for (Value x : {x0, x1}) {
      Value rounded = math::RoundEvenOp::create(b, loc, mulf(x, inverse));
      Value q = arith::FPToSIOp::create(b, loc, stripType(b.getI32Type()), rounded);
      store(reduceSum(q), to.sums, {row, div(c, sixteen)});
      Value bytes = arith::TruncIOp::create(b, loc, stripType(b.getI8Type()), q);
      vector::StoreOp::create(b, loc, bytes, to.q, ValueRange{row, c});
      c = column1;
    }
  });
}

void TileBuilder::contract(MatrixAttr matrix, V weights, V group, const Activation &x, const Rows &rows, V sums, bool int8,
                           int64_t groups, int64_t apart) {
  bool useInt8 = int8 && !isFloatElement(matrix.getElement());
  Values input = useInt8 ? Values{x.q, x.scale, x.sums} : Values{x.f32};
  auto block = tile::BlockType::get(b.getContext(), matrix.getElement());
  tile::ContractOp::create(b, loc, weights, group, block, matrix.getColumns(), groups, apart, input, rows.first, rows.n, rows.map, sums);
}

void TileBuilder::contractPart(MatrixAttr matrix, unsigned part, V scaleGroup, V group, const Activation &x, const Rows &rows,
                               V sums, bool int8, int64_t groups, int64_t apart) {
  std::string number = std::to_string(part);
  contract(matrix, arg("w" + number), group, x, rows, sums, int8, groups, apart);
  if (!matrix.getScales())
    return;
  V scale = lane(load(arg("s" + number), {matrix.getScales() == 1 ? index(0) : scaleGroup}));
  int64_t capacity = cast<MemRefType>(sums.getType()).getDimSize(0);
  forEach(index(0), index(capacity), capacity / groups, [&](V at) {
    forEach(at, add(at, rows.n), 1, [&](V m) { storeStrip(mulf(loadStrip(sums, {m, index(0)}), scale), sums, {m, index(0)}); });
  });
}

} // namespace g4
