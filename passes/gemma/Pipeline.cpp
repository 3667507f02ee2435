#include "passes/gemma/Pipeline.h"

#include "passes/gemma/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace g4::gemma {
namespace {

struct Flags : PassPipelineOptions<Flags> {
  Option<std::string> activations{*this, "activations", llvm::cl::desc("int8 or f32"),
                                  llvm::cl::init("int8")};
  Option<std::string> kv{*this, "kv", llvm::cl::desc("f32, f16, bf16, q8_0 or q4_0"), llvm::cl::init("f16")};
  Option<std::string> quantize{*this, "quantize", llvm::cl::desc("type that matrices are quantised to")};
  Option<std::string> rules{*this, "rules", llvm::cl::desc("path of a rules file")};
  Option<std::string> imatrix{*this, "imatrix", llvm::cl::desc("path of an importance matrix")};
};

void build(OpPassManager &pm, const QuantizePassOptions &quantize) {
  pm.addPass(createInferShapesPass());   // later passes read the facts
  pm.addPass(createResolveDonorsPass()); // makes K/V uses visible to the demand analysis
  pm.addPass(createFoldConstantsPass()); // before ops are merged: it looks at single ones
  pm.addPass(createQuantizePass(quantize));
  pm.addPass(createPruneRowsPass());
  pm.addPass(createHoistPerLayerInputsPass()); // after pruning: one op for each row set
  pm.addPass(createFuseProjectionsPass());     // after pruning: q may have left k and v
}

QuantizePassOptions quantizeOptions(const GemmaOptions &options) {
  return {stringifyActivationType(options.activations).str(), stringifyKvElement(options.kv).str(), options.quantize,
          options.rules, options.imatrix};
}

} // namespace

void buildQuantizePipeline(OpPassManager &pm, const GemmaOptions &options) {
  pm.addPass(createQuantizePass(quantizeOptions(options)));
}

void buildGemmaPipeline(OpPassManager &pm, const GemmaOptions &options) {
  build(pm, quantizeOptions(options));
}

void registerGemmaPipeline() {
  PassPipelineRegistration<Flags>(
      "gemma-pipeline", "All gemma passes, from import form to lowering",
      [](OpPassManager &pm, const Flags &flags) {
        build(pm, {flags.activations, flags.kv, flags.quantize, flags.rules, flags.imatrix});
      });
}

} // namespace g4::gemma
