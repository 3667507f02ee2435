#include "compiler/pipeline/Pipeline.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/gemma/GemmaDialect.h"
#include "passes/exec/Passes.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace g4 {

std::optional<Stage> stageOf(ModuleOp module) {
  if (!module.getOps<exec::ProgramOp>().empty()) {
    auto kernels = module.getOps<exec::KernelOp>();
    return llvm::any_of(kernels, [](exec::KernelOp k) { return !k.getBody().empty(); }) ? Stage::kTile : Stage::kExec;
  }
  for (gemma::ModelOp model : module.getOps<gemma::ModelOp>())
    return model.getActivations() ? Stage::kGemma : Stage::kGguf;
  return std::nullopt;
}

void buildPipeline(OpPassManager &pm, Stage from, Stage last, const PipelineOptions &options) {
  if (from < Stage::kGemma && last >= Stage::kGemma)
    gemma::buildGemmaPipeline(pm, options.gemma);
  if (from < Stage::kExec && last >= Stage::kExec) {
    pm.addPass(lower::createLowerGemmaToExecPass({options.maxRows, options.maxLogitRows}));
    pm.addPass(exec::createDeduplicateKernelsPass());
    pm.addPass(exec::createPackWeightsPass());
    pm.addPass(exec::createPlaceBarriersPass()); // before the memory plan, whose lifetimes are counted in its phases
    pm.addPass(exec::createPlanMemoryPass());
  }
  if (from < Stage::kTile && last >= Stage::kTile)
    pm.addPass(lower::createLowerExecToTilePass());
}

} // namespace g4
