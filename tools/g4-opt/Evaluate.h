/// The evaluator as a tool: runs a module's model on one sequence and writes what it computes as .npy files.
#pragma once

#include "compiler/reference/Evaluator.h"
#include "tools/common/Files.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <string_view>

namespace g4 {

/// What `--evaluate` takes.
struct EvaluateFlags {
  bool evaluate = false;
  std::string ids, tail, logits, experts, out;

  /// Takes `argument` if it is one of these flags.
  bool parse(std::string_view argument);
  /// What they ask for, but for the experts. Errors: kInvalidArgument for bad usage.
  Result<reference::EvaluateOptions> options() const;
};

/// Evaluates the one `gemma.model` of `module`: `logits.npy`, `hidden.npy` and one file per tap in
/// `flags.out`, none of which replaces what `uses` has. Experts of `flags` are read first.
Status evaluateToFiles(mlir::ModuleOp module, const EvaluateFlags &flags, reference::EvaluateOptions options,
                       tool::FileUses &uses);

} // namespace g4
