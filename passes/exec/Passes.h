/// Passes inside the exec dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace g4::exec {
#define GEN_PASS_DECL
#include "passes/exec/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/exec/Passes.h.inc"
} // namespace g4::exec
