/// Writes a module's model back as a GGUF file.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>

namespace g4::emit {

struct GgufOptions {
  std::string output;
  /// Called with bytes of tensors done and in all, now and then.
  llvm::function_ref<void(uint64_t, uint64_t)> progress;
};

/// Writes one GGUF (version 3) with the metadata and the tensors of the files that `module` names in `gguf.files`, in their
/// order: byte for byte, except weights that the module stores as another type than the files do, which are converted.
/// Then general.file_type and general.quantization_version say so. Parts of a split file become one.
/// `module` may be in any stage that has `gguf.weight` symbols.
/// Nothing is left at `output` unless all of it was written.
/// Errors: reported as diagnostics of the module's context.
mlir::LogicalResult writeGguf(mlir::ModuleOp module, const GgufOptions &options);

} // namespace g4::emit
