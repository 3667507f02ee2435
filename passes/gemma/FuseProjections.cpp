#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_FUSEPROJECTIONSPASS
#include "passes/gemma/Passes.h.inc"
namespace {

/// Replaces `linears`, which read one value, by one op in place of the first. Results keep the order of the
/// ops, which is the importer's (q, k, v; gate, up) however the file stores them.
void fuse(ArrayRef<LinearOp> linears) {
  LinearOp first = linears.front();
  OpBuilder builder(first);
  SmallVector<Attribute> parts;
  SmallVector<Type> types;
  SmallVector<Location> locs;
  for (LinearOp linear : linears) {
    llvm::append_range(parts, linear.getParts());
    llvm::append_range(types, linear.getResultTypes());
    locs.push_back(linear.getLoc());
  }
  auto fused = LinearOp::create(builder, FusedLoc::get(builder.getContext(), locs), types, first.getX(),
                                builder.getArrayAttr(parts), first.getLayerAttr(), TapKindAttr());
  auto result = fused.getOutputs().begin();
  for (LinearOp linear : linears) {
    for (Value old : linear.getOutputs())
      old.replaceAllUsesWith(*result++);
    linear.erase();
  }
}

struct FuseProjectionsPass : impl::FuseProjectionsPassBase<FuseProjectionsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      llvm::MapVector<std::pair<Value, Attribute>, SmallVector<LinearOp>> byInput;
      for (auto linear : model.getBody().getOps<LinearOp>())
        if (!linear.getTap()) // a tap names one result
          byInput[{linear.getX(), linear.getLayerAttr()}].push_back(linear);
      for (auto &[input, linears] : byInput)
        if (linears.size() > 1)
          fuse(linears);
    }
  }
};

} // namespace
} // namespace g4::gemma
