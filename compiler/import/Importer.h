/// GGUF files of a Gemma 4 text model -> the gemma dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace g4::importer {

struct ImportOptions {
  /// Accept files that end before their tensor data (`--weights=none`).
  bool allowMissingData = false;
};

/// Reads the model that `paths` hold together (one file, or the parts of a split one, of which one is enough)
/// into a module with `gguf.files`, a `gguf.weight` per tensor that the model uses, and one `gemma.model` in
/// import form: all layers on the body rows, one linear per projection, sharing layers on `gemma.kv_shared`.
/// Reads headers only; weights are named, not loaded.
/// Owner:   the caller owns the module; it holds no reference to the files.
/// Threads: one per context.
/// Errors:  null after at least one error diagnostic, whose location names the tensor where there is one. The
///          files are untrusted. Where metadata and weights disagree the weights win, with a warning.
mlir::OwningOpRef<mlir::ModuleOp> importGguf(mlir::MLIRContext &context, llvm::ArrayRef<std::string> paths,
                                             const ImportOptions &options);

} // namespace g4::importer
