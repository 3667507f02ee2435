#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "passes/gemma/Passes.h.inc"
namespace {

class Folder {
public:
  explicit Folder(ModuleOp module) : module_(module), symbols_(module), builder_(module.getContext()) {}

  void run() {
    // Ops by the vector that they would fold into.
    llvm::MapVector<StringAttr, SmallVector<Operation *>> vectors;
    module_.walk([&](Operation *op) {
      if (auto route = dyn_cast<RouteOp>(op))
        vectors[route.getScaleAttr().getAttr()].push_back(op);
      else if (auto inputs = dyn_cast<PerLayerInputsOp>(op))
        vectors[inputs.getNormAttr().getAttr()].push_back(op);
    });
    for (auto &[name, ops] : vectors)
      fold(name, ops);
  }

private:
  void fold(StringAttr name, ArrayRef<Operation *> ops);
  FloatAttr f32(float value) { return builder_.getF32FloatAttr(value); }

  ModuleOp module_;
  SymbolTable symbols_;
  OpBuilder builder_;
};

/// The factor that `op` would put into its vector.
float factorOf(Operation *op) {
  if (auto route = dyn_cast<RouteOp>(op))
    return route.getInputScale().convertToFloat();
  return cast<PerLayerInputsOp>(op).getCombineScale().convertToFloat();
}

void Folder::fold(StringAttr name, ArrayRef<Operation *> ops) {
  for (Operation *op : ops) {
    auto inputs = dyn_cast<PerLayerInputsOp>(op);
    if (!inputs)
      continue;
    // rms(s x) with eps is rms(x) with eps / s^2.
    float scale = inputs.getProjectionScale().convertToFloat();
    if (scale == 0.0f || scale == 1.0f)
      continue;
    inputs.setEpsAttr(f32(inputs.getEps().convertToFloat() / (scale * scale)));
    inputs.setProjectionScaleAttr(f32(1.0f));
  }

  float factor = factorOf(ops.front());
  auto weight = symbols_.lookup<gguf::WeightOp>(name);
  if (!weight || factor == 1.0f || factor == 0.0f ||
      !llvm::all_of(ops, [&](Operation *op) { return factorOf(op) == factor; }))
    return;
  // Other readers of the vector would see the factor too.
  std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(name, module_);
  if (!uses || static_cast<size_t>(llvm::range_size(*uses)) != ops.size())
    return;
  weight.setFactorAttr(f32(weight.getFactorOrOne() * factor));
  for (Operation *op : ops) {
    if (auto route = dyn_cast<RouteOp>(op)) {
      route.setInputScaleAttr(f32(1.0f));
      continue;
    }
    auto inputs = cast<PerLayerInputsOp>(op);
    inputs.setTableScaleAttr(f32(inputs.getTableScale().convertToFloat() * factor));
    inputs.setCombineScaleAttr(f32(1.0f));
  }
}

struct FoldConstantsPass : impl::FoldConstantsPassBase<FoldConstantsPass> {
  void runOnOperation() override { Folder(getOperation()).run(); }
};

} // namespace
} // namespace g4::gemma
