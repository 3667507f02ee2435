#include "compiler/targets/vulkan/LaneBlock.h"
#include "compiler/targets/vulkan/Vulkan.h"
#include "dialects/exec/ExecDialect.h"
#include "runtime/module/StepAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::vulkan {
#define GEN_PASS_DEF_LOWERTILETOGPUPASS
#include "compiler/targets/vulkan/Passes.h.inc"
namespace {

constexpr int64_t kLanes = module::kLanes;

bool isStrip(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() == 1 && vector.getNumElements() == kLanes;
}

/// Rewrites one kernel. Values keep their identity where they can: a strip's type becomes that of its
/// element.
class KernelRewriter {
public:
  KernelRewriter(exec::KernelOp kernel, gpu::GPUModuleOp into) : kernel(kernel), into(into) {}
  LogicalResult run();

private:
  void moveBody();
  LogicalResult rewrite(Operation *op);
  LogicalResult rewriteConstant(arith::ConstantOp op);
  LogicalResult rewriteScalarBytes(vector::ExtractOp op);
  LogicalResult rewriteBlock(tile::LoadQuantOp op);
  void rewriteReduce(tile::ReduceOp op);
  Value workgroupMemory(OpBuilder &b, MemRefType like);
  SmallVector<Value> lanePosition(OpBuilder &b, OperandRange indices);

  exec::KernelOp kernel;
  gpu::GPUModuleOp into;
  gpu::GPUFuncOp function;
  Value lane;
  DenseMap<Type, Value> reduceScratch;
};

/// Weights that are only decoded are read by dwords.
Type argumentType(BlockArgument argument) {
  bool packed = !argument.use_empty() && llvm::all_of(argument.getUsers(), [](Operation *user) {
    return isa<tile::LoadQuantOp>(user);
  });
  return packed ? MemRefType::get({ShapedType::kDynamic}, IntegerType::get(argument.getContext(), 32))
                : argument.getType();
}

void KernelRewriter::moveBody() {
  Location loc = kernel.getLoc();
  Block *body = &kernel.getBody().front();
  SmallVector<Type> types;
  for (BlockArgument argument : body->getArguments().drop_back(2))
    types.push_back(argumentType(argument));
  OpBuilder b = OpBuilder::atBlockEnd(into.getBody());
  function = gpu::GPUFuncOp::create(b, loc, kernel.getSymName(), b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(kLanes), 1, 1}));
  Block *entry = &function.getBody().front();
  b.setInsertionPointToEnd(entry);
  lane = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  SmallVector<Value> arguments(entry->getArguments());
  arguments.push_back(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x));
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  arguments.push_back(arith::AddIOp::create(b, loc, arguments.back(), one));
  for (auto [from, to] : llvm::zip_equal(body->getArguments(), arguments))
    from.replaceAllUsesWith(to);
  Operation *terminator = body->getTerminator();
  entry->getOperations().splice(entry->end(), body->getOperations());
  b.setInsertionPointToEnd(entry);
  gpu::ReturnOp::create(b, loc);
  terminator->erase();
  kernel.erase();
}

Value KernelRewriter::workgroupMemory(OpBuilder &b, MemRefType like) {
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get(like.getShape(), like.getElementType(), MemRefLayoutAttrInterface{}, space);
  return memref::AllocOp::create(b, function.getLoc(), type);
}

SmallVector<Value> KernelRewriter::lanePosition(OpBuilder &b, OperandRange indices) {
  SmallVector<Value> at(indices);
  at.back() = arith::AddIOp::create(b, function.getLoc(), at.back(), lane);
  return at;
}

LogicalResult KernelRewriter::rewriteConstant(arith::ConstantOp op) {
  OpBuilder b(op);
  auto values = dyn_cast<DenseElementsAttr>(op.getValue());
  Value scalar;
  if (values && values.isSplat()) {
    scalar = arith::ConstantOp::create(b, op.getLoc(), values.getSplatValue<TypedAttr>());
  } else if (values && values.getElementType().isInteger(32) &&
             llvm::equal(values.getValues<int32_t>(), llvm::seq<int32_t>(0, kLanes))) {
    scalar = arith::IndexCastOp::create(b, op.getLoc(), b.getI32Type(), lane);
  } else {
    return op.emitOpError("is neither the same in all lanes nor the lanes' numbers");
  }
  op.replaceAllUsesWith(scalar);
  op.erase();
  return success();
}

/// A scalar of several bytes, which bodies read as a short vector of bytes.
LogicalResult KernelRewriter::rewriteScalarBytes(vector::ExtractOp op) {
  auto cast = op.getSource().getDefiningOp<vector::BitCastOp>();
  auto load = cast ? cast.getSource().getDefiningOp<vector::LoadOp>() : vector::LoadOp();
  if (!load || cast.getResultVectorType().getNumElements() != 1 ||
      !load.getVectorType().getElementType().isInteger(8))
    return op.emitOpError("takes an element of something else than a scalar's bytes");
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type element = op.getType(), i32 = b.getI32Type();
  Value bits = arith::ConstantIntOp::create(b, loc, 0, 32);
  int64_t n = load.getVectorType().getNumElements();
  for (int64_t i = 0; i < n; ++i) {
    SmallVector<Value> at(load.getIndices());
    at.back() = arith::AddIOp::create(b, loc, at.back(), Value(arith::ConstantIndexOp::create(b, loc, i)));
    Value byte =
        arith::ExtUIOp::create(b, loc, i32, Value(memref::LoadOp::create(b, loc, load.getBase(), at)));
    Value shift = arith::ConstantIntOp::create(b, loc, 8 * i, 32);
    bits = arith::OrIOp::create(b, loc, bits, Value(arith::ShLIOp::create(b, loc, byte, shift)));
  }
  if (n < 4)
    bits = arith::TruncIOp::create(b, loc, b.getIntegerType(8 * n), bits);
  op.replaceAllUsesWith(Value(arith::BitcastOp::create(b, loc, element, bits)));
  op.erase();
  if (cast.use_empty())
    cast.erase();
  if (load.use_empty())
    load.erase();
  return success();
}

/// Emits a block's users together at the last of them, so that each weight is decoded once for all rows.
LogicalResult KernelRewriter::rewriteBlock(tile::LoadQuantOp op) {
  if (!op.getWeights().getType().getElementType().isInteger(32))
    return op.emitOpError("names weights that are also accessed in other ways");
  gguf::ElementType element = op.getResult().getType().getElement();
  if (!LaneBlock::canDecode(gguf::getPackedLayout(element)))
    return op.emitOpError("names weights of ") << gguf::stringifyElementType(element) << ", which lanes cannot decode";
  SmallVector<Operation *> users(op->getUsers());
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
    LaneBlock block(b, op, lane);
    if (!dots.empty())
      for (auto [dot, sum] : llvm::zip_equal(dots, block.dots(dots)))
        dot.replaceAllUsesWith(sum);
    if (!dotsF32.empty())
      for (auto [dot, sum] : llvm::zip_equal(dotsF32, block.dotsF32(dotsF32)))
        dot.replaceAllUsesWith(sum);
    for (Operation *user : users)
      if (auto dequant = dyn_cast<tile::DequantOp>(user))
        block.dequant(dequant.getTo());
  }
  for (Operation *user : users)
    user->erase();
  op.erase();
  return success();
}

/// Every lane reads all sixteen elements and adds them in the order that tile.reduce promises. No subgroup
/// operations: a subgroup may be smaller than a strip.
void KernelRewriter::rewriteReduce(tile::ReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type element = op.getResult().getType();
  Value &scratch = reduceScratch[element];
  if (!scratch) {
    OpBuilder atStart = OpBuilder::atBlockBegin(&function.getBody().front());
    scratch = workgroupMemory(atStart, MemRefType::get({kLanes}, element));
  }
  bool isFloat = isa<FloatType>(element), isSum = op.getKind() == tile::Reduction::sum;
  memref::StoreOp::create(b, loc, op.getValue(), scratch, lane);
  gpu::BarrierOp::create(b, loc);
  SmallVector<Value> values;
  for (int64_t i = 0; i < kLanes; ++i)
    values.push_back(
        memref::LoadOp::create(b, loc, scratch, Value(arith::ConstantIndexOp::create(b, loc, i))));
  for (int64_t n = kLanes / 2; n >= 1; n /= 2)
    for (int64_t i = 0; i < n; ++i) {
      Value x = values[i], y = values[i + n];
      if (isSum)
        values[i] =
            isFloat ? Value(arith::AddFOp::create(b, loc, x, y)) : Value(arith::AddIOp::create(b, loc, x, y));
      else
        values[i] = isFloat ? Value(arith::MaxNumFOp::create(b, loc, x, y))
                            : Value(arith::MaxSIOp::create(b, loc, x, y));
    }
  op.replaceAllUsesWith(values[0]);
  op.erase();
}

LogicalResult KernelRewriter::rewrite(Operation *op) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isStrip(constant.getType()) ? rewriteConstant(constant) : success();
  if (auto load = dyn_cast<vector::LoadOp>(op)) {
    if (!isStrip(load.getResult().getType()))
      return success(); // a scalar's bytes: see rewriteScalarBytes
    load.replaceAllUsesWith(
        Value(memref::LoadOp::create(b, loc, load.getBase(), lanePosition(b, load.getIndices()))));
  } else if (auto store = dyn_cast<vector::StoreOp>(op)) {
    memref::StoreOp::create(b, loc, store.getValueToStore(), store.getBase(),
                            lanePosition(b, store.getIndices()));
  } else if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    if (isa<VectorType>(broadcast.getSource().getType()))
      return op->emitOpError("of something else than a scalar");
    broadcast.replaceAllUsesWith(broadcast.getSource());
  } else if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    return rewriteScalarBytes(extract);
  } else if (auto alloca = dyn_cast<memref::AllocaOp>(op)) {
    alloca.replaceAllUsesWith(workgroupMemory(b, alloca.getType()));
  } else if (auto block = dyn_cast<tile::LoadQuantOp>(op)) {
    return rewriteBlock(block);
  } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    return rewriteReduce(reduce), success();
  } else if (isa<tile::HadamardOp>(op)) {
    return op->emitOpError("is not built for this target yet: no quantised K/V (q8_0, q4_0)");
  } else if (isa<tile::BarrierOp>(op)) {
    gpu::BarrierOp::create(b, loc);
  } else if (isa<memref::PrefetchOp>(op)) {
    // Nothing: other workgroups work meanwhile.
  } else {
    bool strips = llvm::any_of(op->getOperandTypes(), isStrip) || llvm::any_of(op->getResultTypes(), isStrip);
    if (strips && !op->hasTrait<OpTrait::Elementwise>() && !isa<scf::ForOp, scf::IfOp, scf::YieldOp>(op))
      return op->emitOpError("has no meaning for one lane");
    return success();
  }
  op->erase();
  return success();
}

LogicalResult KernelRewriter::run() {
  moveBody();
  // What reads weight blocks is rewritten with them, the bytes of scalars with the element taken from them.
  SmallVector<Operation *> work;
  function.walk([&](Operation *op) {
    if (op != function && !isa<tile::DotOp, tile::DotF32Op, tile::DequantOp, vector::BitCastOp>(op))
      work.push_back(op);
  });
  // Elementwise operations only change their types, last of all: until then they tell strips from scalars.
  for (Operation *op : work)
    if (failed(rewrite(op)))
      return failure();
  auto toElement = [](Value v) {
    if (isStrip(v.getType()))
      v.setType(cast<VectorType>(v.getType()).getElementType());
  };
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      toElement(result);
    for (Region &region : op->getRegions())
      for (Value argument : region.getArguments())
        toElement(argument);
  });
  return success();
}

/// Every weight that a kernel decodes is of a type that lanes can.
LogicalResult checkWeights(ModuleOp module) {
  auto result = module.walk([](exec::WeightOp weight) {
    gguf::ElementType element = weight.getMatrix().getElement();
    if (weight.getStorage() == exec::Storage::vector || LaneBlock::canDecode(gguf::getPackedLayout(element)))
      return WalkResult::advance();
    weight.emitOpError("reads ") << cast<gguf::PartAttr>(weight.getPart()).getWeight() << ", which is "
                                 << gguf::stringifyElementType(element) << ": the Vulkan target cannot decode it";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

struct LowerTileToGpuPass : impl::LowerTileToGpuPassBase<LowerTileToGpuPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkWeights(module)))
      return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (!isa<exec::KernelOp>(op))
        op.erase();
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), UnitAttr::get(&getContext()));
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    auto into = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
    for (exec::KernelOp kernel : llvm::make_early_inc_range(module.getOps<exec::KernelOp>())) {
      if (kernel.getBody().empty()) {
        kernel.emitOpError("has no body: run lower-exec-to-tile first");
        return signalPassFailure();
      }
      if (failed(KernelRewriter(kernel, into).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
} // namespace g4::vulkan
