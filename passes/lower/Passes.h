/// Passes between dialects.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace g4::lower {
#define GEN_PASS_DECL
#include "passes/lower/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"
} // namespace g4::lower
