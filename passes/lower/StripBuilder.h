/// Writes scalar and strip code: constants, arithmetic, loads and stores, loops.
#pragma once

#include "runtime/module/StepAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace g4 {

class StripBuilder {
public:
  using V = mlir::Value;
  using Values = llvm::SmallVector<mlir::Value>;

  StripBuilder(mlir::OpBuilder builder, mlir::Location loc) : b(builder), loc(loc) {}

  mlir::OpBuilder b;
  mlir::Location loc;

  // Constants, index and scalar arithmetic.
  V index(int64_t v);
  V i32(int32_t v);
  V f32(float v);                       ///< scalar
  V splat(float v);                     ///< strip
  V like(V shaped, float v);            ///< scalar or strip, as `shaped`
  V add(V x, V y), sub(V x, V y), mul(V x, V y), div(V x, V y), rem(V x, V y), ceilDiv(V x, int64_t y);
  V min(V x, V y), max(V x, V y);       ///< index
  V addf(V x, V y), subf(V x, V y), mulf(V x, V y), divf(V x, V y), fma(V x, V y, V z), maxf(V x, V y);
  V lane(V scalar) { return mlir::vector::BroadcastOp::create(b, loc, stripType(scalar.getType()), scalar); }
  V toIndex(V x) { return mlir::arith::IndexCastOp::create(b, loc, b.getIndexType(), x); }
  V compare(mlir::arith::CmpIPredicate p, V x, V y) { return mlir::arith::CmpIOp::create(b, loc, p, x, y); }
  V select(V c, V x, V y) { return mlir::arith::SelectOp::create(b, loc, c, x, y); }

  // Memory.
  V load(V memref, mlir::ValueRange at) { return mlir::memref::LoadOp::create(b, loc, memref, at); }
  V loadIndex(V memref, mlir::ValueRange at) { return toIndex(load(memref, at)); }
  void store(V value, V memref, mlir::ValueRange at) { mlir::memref::StoreOp::create(b, loc, value, memref, at); }
  V loadStrip(V memref, mlir::ValueRange at); ///< f32 strip of an f32, f16 or bf16 memref
  void storeStrip(V value, V memref, mlir::ValueRange at);
  V narrow(V value, mlir::Type element); ///< f32 scalar to f32, f16 or bf16
  mlir::VectorType stripType(mlir::Type element) const { return mlir::VectorType::get({module::kLanes}, element); }

  // Control.
  void forEach(V lower, V upper, int64_t step, llvm::function_ref<void(V)> body);
  Values loop(V lower, V upper, int64_t step, mlir::ValueRange init,
              llvm::function_ref<Values(V, mlir::ValueRange)> body);
  void ifThen(V condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise = {});
  V ifElse(V condition, llvm::function_ref<V()> then, llvm::function_ref<V()> otherwise);
};

} // namespace g4
