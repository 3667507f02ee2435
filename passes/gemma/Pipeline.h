/// From the import form to what lowering takes.
#pragma once

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/Pass/PassManager.h"

namespace g4::gemma {

struct GemmaOptions {
  ActivationType activations = ActivationType::kInt8;
  KvElement kv = KvElement::kF16;
  std::string quantize; ///< type that matrices are quantised to; empty: none
  std::string rules;    ///< path of a rules file; empty: none
  std::string imatrix;  ///< path of an importance matrix; empty: none
};

/// Adds the phase's passes to `pm`, which runs on modules.
void buildGemmaPipeline(mlir::OpPassManager &pm, const GemmaOptions &options);

/// Adds `gemma-quantize` alone: for a model that is only converted.
void buildQuantizePipeline(mlir::OpPassManager &pm, const GemmaOptions &options);

/// Registers the phase as `--gemma-pipeline="activations=f32 kv=f32"` for g4-opt.
void registerGemmaPipeline();

} // namespace g4::gemma
