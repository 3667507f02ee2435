/// The gguf dialect: types, attributes and ops generated from Gguf.td.
#pragma once

#include "runtime/module/PackedLayout.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/gguf/GgufDialect.h.inc"
#include "dialects/gguf/GgufEnums.h.inc"

namespace g4::gguf {
/// Elements and bytes of one block of `type`; both 1 x the element for plain floats.
int64_t getBlockElements(ElementType type);
int64_t getBlockBytes(ElementType type);
} // namespace g4::gguf

#define GET_ATTRDEF_CLASSES
#include "dialects/gguf/GgufAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/gguf/GgufTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/gguf/GgufOps.h.inc"

namespace g4::gguf {

/// The module attribute that lists the imported files' paths.
inline constexpr llvm::StringLiteral kFilesAttr = "gguf.files";
/// The module attribute with the path of an importance matrix for weights that are converted.
inline constexpr llvm::StringLiteral kImatrixAttr = "gguf.imatrix";

/// True for f32, f16 and bf16.
bool isFloat(ElementType type);
/// How matrices of the type lie in an artifact. Every type has a layout.
const module::PackedLayout &getPackedLayout(ElementType type);

} // namespace g4::gguf
