/// What an artifact would be, without code and without reading weights.
#pragma once

#include "runtime/module/module_generated.h"

#include "mlir/IR/BuiltinOps.h"

namespace g4::emit {

struct Plan {
  module::fb::ModuleT header;  ///< but segments, variants and producer
  uint64_t weightBytes = 0;    ///< as packed
  uint64_t tokenizerBytes = 0; ///< 0: the model file has no tokenizer
};

/// For a module as emitArtifact takes it. Errors: reported as diagnostics of the module's context.
mlir::FailureOr<Plan> planArtifact(mlir::ModuleOp module);

} // namespace g4::emit
