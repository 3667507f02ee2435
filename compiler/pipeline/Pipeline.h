/// The phases of a compilation. Each takes the IR that the one before left, so a run can stop after any of them and
/// go on from what was printed.
#pragma once

#include "passes/gemma/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>

namespace g4 {

/// What a module holds, which says what is still to do. Names are those of `g4c --emit`.
enum class Stage { kGguf, kGemma, kExec, kTile, kLlvm };

/// The stage that `module` is in: an exec.program with kernel bodies is kTile, without them kExec; a gemma.model that
/// has its activation type is kGemma, without it kGguf. Nothing when there is neither.
std::optional<Stage> stageOf(mlir::ModuleOp module);

struct PipelineOptions {
  gemma::GemmaOptions gemma;
  int64_t maxRows = 512;     ///< rows of a step: a prefill chunk, or sequences that decode together
  int64_t maxLogitRows = 64; ///< rows whose logits one step gives
};

/// kGguf → kGemma → kExec → kTile, from what `module` holds up to and with `last`.
/// Errors: diagnostics; a module already past `last` stays as it is.
void buildPipeline(mlir::OpPassManager &pm, Stage from, Stage last, const PipelineOptions &options);

} // namespace g4
