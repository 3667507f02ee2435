/// Writes the artifact: header from the exec module, weights packed from the GGUF files, code, tokenizer tables.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace g4::emit {

/// Machine code of all kernels for one target variant; stored best first.
struct CodeVariant {
  std::string target, cpu;
  std::vector<std::string> features;
  std::string bytes;
};

struct EmitOptions {
  std::string output;
  std::string producer;
  bool weightsMissing = false;
  /// Called with bytes of weights done and in all, now and then.
  llvm::function_ref<void(uint64_t, uint64_t)> progress;
};

/// `module` has one exec.program after exec-pack-weights and exec-plan-memory, and names its files in `gguf.files`.
/// `code` is asked for the code when the weights are written: it may be in the making until then.
/// Nothing is left at `output` unless all of it was written.
/// Errors: reported as diagnostics of the module's context.
mlir::LogicalResult emitArtifact(mlir::ModuleOp module,
                                 llvm::function_ref<mlir::FailureOr<std::vector<CodeVariant>>()> code,
                                 const EmitOptions &options);

} // namespace g4::emit
