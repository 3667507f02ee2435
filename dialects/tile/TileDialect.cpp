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
  const module::PackedLayout &layout = gguf::getPackedLayout(getResult().getType().getElement());
  uint64_t unit = std::max(layout.superColumns, 32u);
  if (getColumns() <= 0 || uint64_t(getColumns()) % unit) // load_quant_c1
    return emitOpError("has ") << getColumns() << " columns, but " << layout.name << " packs " << unit << " at a time";
  return success();
}

/// Columns of a row; 0 when unknown.
static int64_t columnsOf(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  return type.isDynamicDim(1) ? 0 : type.getDimSize(1);
}

LogicalResult DotOp::verify() {
  gguf::ElementType element = getBlock().getType().getElement();
  if (gguf::getPackedLayout(element).isFloat) // dot_c1
    return emitOpError("has int8 activations for weights of ") << gguf::stringifyElementType(element);
  int64_t columns = columnsOf(getQ());
  if (columns <= 0 || columns % 32 || columnsOf(getScale()) != columns / 32 || columnsOf(getSums()) != columns / 16) // dot_c2
    return emitOpError("has ") << columnsOf(getScale()) << " scales and " << columnsOf(getSums()) << " sums for "
                               << columns << " columns";
  return success();
}

LogicalResult DotF32Op::verify() {
  if (int64_t columns = columnsOf(getX()); columns <= 0 || columns % 32) // dot_f32_c1
    return emitOpError("reads blocks of 32 from rows of ") << columns << " columns";
  return success();
}

LogicalResult DequantOp::verify() {
  auto type = cast<MemRefType>(getTo().getType());
  if (type.getShape() != ArrayRef<int64_t>{32, 16}) // dequant_c1
    return emitOpError("writes 32 strips of 16 to ") << type;
  return success();
}

LogicalResult ReduceOp::verify() {
  Type element = cast<VectorType>(getValue().getType()).getElementType();
  if (element != getResult().getType()) // reduce_c1
    return emitOpError("reduces ") << element << " but gives " << getResult().getType();
  return success();
}

} // namespace g4::tile
