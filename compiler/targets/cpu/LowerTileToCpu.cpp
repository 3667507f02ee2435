#include "compiler/targets/cpu/Cpu.h"
#include "compiler/targets/cpu/DotEmitter.h"
#include "dialects/exec/ExecDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {
#define GEN_PASS_DEF_LOWERTILETOCPUPASS
#include "compiler/targets/cpu/Passes.h.inc"
namespace {

/// A memref over the buffer at `pointer`. The leading dimension is unknown and never asked for.
Value memrefFrom(OpBuilder &b, Location loc, MemRefType type, Value pointer) {
  MLIRContext *context = b.getContext();
  auto ptr = LLVM::LLVMPointerType::get(context);
  auto sizes = LLVM::LLVMArrayType::get(b.getI64Type(), type.getRank());
  auto descriptor = LLVM::LLVMStructType::getLiteral(context, {ptr, ptr, b.getI64Type(), sizes, sizes});
  Value v = LLVM::PoisonOp::create(b, loc, descriptor);
  auto insert = [&](Value x, ArrayRef<int64_t> at) { v = LLVM::InsertValueOp::create(b, loc, v, x, at); };
  auto constant = [&](int64_t x) { return LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(x)); };
  insert(pointer, {0});
  insert(pointer, {1});
  insert(constant(0), {2});
  int64_t stride = 1;
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    insert(constant(type.isDynamicDim(d) ? INT64_MAX : type.getDimSize(d)), {3, d});
    insert(constant(stride), {4, d});
    stride *= type.isDynamicDim(d) ? 1 : type.getDimSize(d);
  }
  return UnrealizedConversionCastOp::create(b, loc, type, v).getResult(0);
}

func::FuncOp makeFunction(exec::KernelOp kernel) {
  OpBuilder b(kernel);
  Location loc = kernel.getLoc();
  auto ptr = LLVM::LLVMPointerType::get(b.getContext());
  auto type = b.getFunctionType({ptr, b.getI64Type(), b.getI64Type()}, {});
  auto function = func::FuncOp::create(b, loc, kernel.getSymName(), type);
  Block *entry = function.addEntryBlock(), *body = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  unsigned buffers = body->getNumArguments() - 2;
  SmallVector<Value> arguments;
  for (unsigned i = 0; i < buffers; ++i) {
    Value slot = LLVM::GEPOp::create(b, loc, ptr, ptr, entry->getArgument(0), ArrayRef<LLVM::GEPArg>{int32_t(i)});
    Value address = LLVM::LoadOp::create(b, loc, ptr, slot);
    arguments.push_back(memrefFrom(b, loc, cast<MemRefType>(body->getArgument(i).getType()), address));
  }
  for (unsigned i : {1, 2})
    arguments.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), entry->getArgument(i)));
  for (auto [from, to] : llvm::zip(body->getArguments(), arguments))
    from.replaceAllUsesWith(to);
  Operation *terminator = body->getTerminator();
  entry->getOperations().splice(entry->end(), body->getOperations());
  b.setInsertionPoint(terminator);
  func::ReturnOp::create(b, loc);
  terminator->erase();
  kernel.erase();
  return function;
}

/// Emits a block's users together at the last of them, so that each weight is decoded once for all rows.
void lowerBlock(TypedValue<tile::BlockType> block, Isa isa) {
  SmallVector<Operation *> users(block.getUsers());
  llvm::sort(users, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  SmallVector<tile::DotOp> dots;
  SmallVector<tile::DotF32Op> dotsF32;
  for (Operation *user : users) {
    if (auto dot = dyn_cast<tile::DotOp>(user))
      dots.push_back(dot);
    else if (auto dot = dyn_cast<tile::DotF32Op>(user))
      dotsF32.push_back(dot);
  }
  if (!users.empty()) {
    OpBuilder b(users.back());
    DotEmitter emitter(b, block.getLoc(), isa, block);
    if (llvm::none_of(users, [](Operation *user) { return mlir::isa<tile::DequantOp>(user); })) // that is a gather
      emitter.prefetchAhead();
    if (!dots.empty())
      for (auto [dot, sum] : llvm::zip(dots, emitter.dots(dots)))
        dot.getResult().replaceAllUsesWith(sum);
    if (!dotsF32.empty())
      for (auto [dot, sum] : llvm::zip(dotsF32, emitter.dotsF32(dotsF32)))
        dot.getResult().replaceAllUsesWith(sum);
    for (Operation *user : users)
      if (auto dequant = dyn_cast<tile::DequantOp>(user))
        emitter.dequant(dequant.getTo());
      else if (auto decode = dyn_cast<tile::DecodeOp>(user))
        emitter.decode(decode.getPanel(), decode.getSlot());
  }
  for (Operation *user : users)
    user->erase();
  block.getDefiningOp()->erase();
}

/// Halves, quarters, eighths, pairs: the order that tile.reduce promises.
void lowerReduce(tile::ReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value v = op.getValue();
  Type element = cast<VectorType>(v.getType()).getElementType();
  bool isFloat = isa<FloatType>(element), isSum = op.getKind() == tile::Reduction::sum;
  for (int64_t n = 8; n >= 1; n /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < n; ++i) {
      low.push_back(i);
      high.push_back(i + n);
    }
    Value x = vector::ShuffleOp::create(b, loc, v, v, low), y = vector::ShuffleOp::create(b, loc, v, v, high);
    if (isSum)
      v = isFloat ? Value(arith::AddFOp::create(b, loc, x, y)) : Value(arith::AddIOp::create(b, loc, x, y));
    else
      v = isFloat ? Value(arith::MaxNumFOp::create(b, loc, x, y)) : Value(arith::MaxSIOp::create(b, loc, x, y));
  }
  op.getResult().replaceAllUsesWith(vector::ExtractOp::create(b, loc, v, 0));
  op.erase();
}

/// Stages of distance 1, 2, 4, 8, as tile.hadamard promises: each element, negated if it is the second of its pair, plus
/// the other. The product is exact, so fma rounds once, as a sum does.
void lowerHadamard(tile::HadamardOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value v = op.getValue();
  auto type = cast<VectorType>(v.getType());
  for (int64_t distance = 1; distance < type.getNumElements(); distance *= 2) {
    SmallVector<int64_t> other;
    SmallVector<float> sign;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      other.push_back(i ^ distance);
      sign.push_back(i & distance ? -1.0f : 1.0f);
    }
    Value signs = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<float>(sign)));
    v = math::FmaOp::create(b, loc, v, signs, vector::ShuffleOp::create(b, loc, v, v, other));
  }
  op.getResult().replaceAllUsesWith(v);
  op.erase();
}

struct LowerTileToCpuPass : impl::LowerTileToCpuPassBase<LowerTileToCpuPass> {
  using Base::Base;
  void runOnOperation() override {
    std::optional<Isa> chosen = parseIsa(isa);
    if (!chosen) {
      getOperation().emitError() << "no instruction set named '" << isa << "': avx2, avx-vnni, avx512-vnni, emulated, dotprod, i8mm";
      return signalPassFailure();
    }
    for (Operation &op : llvm::make_early_inc_range(*getOperation().getBody()))
      if (!mlir::isa<exec::KernelOp, func::FuncOp, memref::GlobalOp>(op))
        op.erase();
    for (exec::KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<exec::KernelOp>())) {
      if (kernel.getBody().empty()) {
        kernel.emitOpError("has no body: run lower-exec-to-tile first");
        return signalPassFailure();
      }
      makeFunction(kernel);
    }
    SmallVector<TypedValue<tile::BlockType>> blocks;
    SmallVector<tile::ReduceOp> reductions;
    SmallVector<tile::HadamardOp> rotations;
    SmallVector<tile::BarrierOp> barriers;
    getOperation().walk([&](Operation *op) {
      if (auto block = dyn_cast<tile::LoadQuantOp>(op))
        blocks.push_back(block.getResult());
      else if (auto decoded = dyn_cast<tile::LoadDecodedOp>(op))
        blocks.push_back(decoded.getResult());
      else if (auto reduce = dyn_cast<tile::ReduceOp>(op))
        reductions.push_back(reduce);
      else if (auto rotation = dyn_cast<tile::HadamardOp>(op))
        rotations.push_back(rotation);
      else if (auto barrier = dyn_cast<tile::BarrierOp>(op))
        barriers.push_back(barrier);
    });
    for (TypedValue<tile::BlockType> block : blocks) {
      Operation *op = block.getDefiningOp();
      if (llvm::any_of(block.getUsers(), [&](Operation *user) { return user->getBlock() != op->getBlock(); })) {
        op->emitOpError("is read in another block than its own");
        return signalPassFailure();
      }
      lowerBlock(block, *chosen);
    }
    for (tile::ReduceOp reduce : reductions)
      lowerReduce(reduce);
    for (tile::HadamardOp rotation : rotations)
      lowerHadamard(rotation);
    for (tile::BarrierOp barrier : barriers) // one thread is all lanes
      barrier.erase();
  }
};

} // namespace
} // namespace g4::cpu
