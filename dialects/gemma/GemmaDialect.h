/// The gemma dialect: types, attributes and ops generated from Gemma.td.
#pragma once

#include "dialects/gguf/GgufDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <string>

namespace g4::gemma {

/// True for `tensor<?xNxf32>` (element 'f') or `tensor<?xNxi32>` ('i').
bool isActivation(mlir::Type type, char element);

} // namespace g4::gemma

#include "dialects/gemma/GemmaDialect.h.inc"
#include "dialects/gemma/GemmaEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/gemma/GemmaAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/gemma/GemmaTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/gemma/GemmaOps.h.inc"

namespace g4::gemma {

/// Columns of an activation.
inline int64_t getColumns(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
}

/// `tensor<?x{columns}xf32>`.
mlir::RankedTensorType getActivationType(mlir::MLIRContext *context, int64_t columns);

/// The layer that `op` is part of, if any.
std::optional<int64_t> getLayer(mlir::Operation *op);

/// The name of the op's tap ("h_layer3", "h_norm"), or nothing when it has none.
std::optional<std::string> getTapName(mlir::Operation *op);

/// The row set that `value` is on; nothing for K/V and for values that do not come from a row set.
std::optional<RowSet> getRowSet(mlir::Value value);

} // namespace g4::gemma
