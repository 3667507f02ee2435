/// Passes inside the gemma dialect; Passes.td documents them.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace g4::gemma {

#define GEN_PASS_DECL
#include "passes/gemma/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/gemma/Passes.h.inc"

} // namespace g4::gemma
