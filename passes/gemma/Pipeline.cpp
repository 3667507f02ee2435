#include "passes/gemma/Pipeline.h"

#include "passes/gemma/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace g4::gemma {
namespace {

struct Flags : PassPipelineOptions<Flags> {
  Option<std::string> activations{*this, "activations", llvm::cl::desc("int8 or f32"),
                                  llvm::cl::init("int8")};
  Option<std::string> kv{*this, "kv", llvm::cl::desc("f32, f16 or bf16"), llvm::cl::init("f16")};
};

void build(OpPassManager &pm, std::string activations, std::string kv) {
  pm.addPass(createInferShapesPass());   // later passes read the facts
  pm.addPass(createResolveDonorsPass()); // makes K/V uses visible to the demand analysis
  pm.addPass(createFoldConstantsPass()); // before ops are merged: it looks at single ones
  pm.addPass(createQuantizePass({.activations = std::move(activations), .kv = std::move(kv)}));
  pm.addPass(createPruneRowsPass());
  pm.addPass(createHoistPerLayerInputsPass()); // after pruning: one op for each row set
  pm.addPass(createFuseProjectionsPass());     // after pruning: q may have left k and v
}

} // namespace

void buildGemmaPipeline(OpPassManager &pm, const GemmaOptions &options) {
  build(pm, stringifyActivationType(options.activations).str(), stringifyKvElement(options.kv).str());
}

void registerGemmaPipeline() {
  PassPipelineRegistration<Flags>(
      "gemma-pipeline", "All gemma passes, from import form to lowering",
      [](OpPassManager &pm, const Flags &flags) { build(pm, flags.activations, flags.kv); });
}

} // namespace g4::gemma
