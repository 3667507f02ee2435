/// The argument list of a kernel, from its specification: the one place that lowering to exec, the bodies and the
/// verifier agree on.
#pragma once

#include "dialects/exec/ExecDialect.h"

#include <string>

namespace g4::exec {

/// One argument of a kernel. Reads come before writes.
struct Argument {
  std::string name;
  mlir::Type element; ///< of the memref
  int64_t columns;    ///< of a row; 0: a flat memref<?xelement>
  bool written;
  mlir::MemRefType type() const;
};

bool hasSignature(mlir::Attribute spec);
/// Empty when `spec` is no kernel specification.
llvm::SmallVector<Argument> signatureOf(mlir::Attribute spec);

/// True when the packed layout of `element` holds plain floats, which are multiplied with f32 activations always.
bool isFloatElement(gguf::ElementType element);
/// The forms in which a contraction with these parts reads its activations.
struct InputForms {
  bool f32 = false, q8 = false;
};
InputForms inputForms(llvm::ArrayRef<MatrixAttr> parts, bool int8);

} // namespace g4::exec
