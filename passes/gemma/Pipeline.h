/// From the import form to what lowering takes.
#pragma once

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/Pass/PassManager.h"

namespace g4::gemma {

struct GemmaOptions {
  ActivationType activations = ActivationType::kInt8;
  KvElement kv = KvElement::kF16;
};

/// Adds the phase's passes to `pm`, which runs on modules.
void buildGemmaPipeline(mlir::OpPassManager &pm, const GemmaOptions &options);

/// Registers the phase as `--gemma-pipeline="activations=f32 kv=f32"` for g4-opt.
void registerGemmaPipeline();

} // namespace g4::gemma
