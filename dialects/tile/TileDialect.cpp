#include "dialects/tile/TileDialect.h"
#include "runtime/module/PackedLayout.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/tile/TileDialect.cpp.inc"
#include "dialects/tile/TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"

namespace g4::tile {

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/tile/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/tile/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/tile/TileOps.cpp.inc"
      >();
}

LogicalResult LoadQuantOp::verify() {
  StringRef name = gguf::stringifyElementType(getResult().getType().getElement());
  const module::PackedLayout *layout = module::packedLayout(name);
  if (!layout)
    return emitOpError("has no packed layout for ") << name;
  uint64_t unit = std::max(layout->superColumns, 32u);
  if (getColumns() <= 0 || uint64_t(getColumns()) % unit) // load_quant_c1
    return emitOpError("has ") << getColumns() << " columns, but " << name << " packs " << unit << " at a time";
  return success();
}

LogicalResult ReduceOp::verify() {
  Type element = cast<VectorType>(getValue().getType()).getElementType();
  if (element != getResult().getType())
    return emitOpError("reduces ") << element << " but gives " << getResult().getType();
  return success();
}

} // namespace g4::tile
