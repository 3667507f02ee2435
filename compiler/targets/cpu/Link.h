/// Object files to one self-contained ELF shared object.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace g4::cpu {

/// Links `objects` in their order; nothing may stay undefined. `loc` is what errors are about.
/// Threads: one at a time in the process (lld's state is global).
mlir::FailureOr<std::string> link(mlir::Location loc, llvm::ArrayRef<llvm::StringRef> objects);

} // namespace g4::cpu
