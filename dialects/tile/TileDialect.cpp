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

/// Columns of a row; 0 when unknown.
static int64_t columnsOf(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  return type.isDynamicDim(1) ? 0 : type.getDimSize(1);
}

int64_t decodedBytes(gguf::ElementType element) {
  const module::PackedLayout &layout = gguf::getPackedLayout(element);
  int64_t subBlocks = layout.subBlocks * 32 > layout.superColumns ? 2 : 1;
  return kDecodedCodeBytes + kDecodedStripBytes * subBlocks * (layout.hasMin ? 2 : 1);
}

static LogicalResult verifyColumns(Operation *op, BlockType block, int64_t columns) {
  const module::PackedLayout &layout = gguf::getPackedLayout(block.getElement());
  int64_t unit = std::max(layout.superColumns, 32u);
  if (columns <= 0 || columns % unit) // load_quant_c1, contract_c1
    return op->emitOpError("has ") << columns << " columns, but " << layout.name << " packs " << unit << " at a time";
  return success();
}

LogicalResult LoadQuantOp::verify() { return verifyColumns(*this, getResult().getType(), getColumns()); }

LogicalResult ContractOp::verify() {
  auto block = cast<BlockType>(getBlock());
  if (failed(verifyColumns(*this, block, getColumns())))
    return failure();
  bool int8 = getInput().size() == 3, isFloat = gguf::getPackedLayout(block.getElement()).isFloat;
  auto is = [&](unsigned i, Type element, int64_t columns) {
    auto type = cast<MemRefType>(getInput()[i].getType());
    return type.getElementType() == element && columnsOf(getInput()[i]) == columns;
  };
  Builder b(getContext());
  bool fits = int8 ? is(0, b.getI8Type(), getColumns()) && is(1, b.getF32Type(), getColumns() / 32) && is(2, b.getI32Type(), getColumns() / 16)
                   : getInput().size() == 1 && is(0, b.getF32Type(), getColumns());
  if (!fits) // contract_c2
    return emitOpError("reads f32, or codes, scales and sums, of ") << getColumns() << " columns";
  if (int8 && isFloat) // contract_c3
    return emitOpError("has int8 activations for weights of ") << gguf::stringifyElementType(block.getElement());
  if (columnsOf(getSums()) != 16) // contract_c4
    return emitOpError("writes strips of 16 to ") << getSums().getType();
  if (int64_t rows = cast<MemRefType>(getSums().getType()).getDimSize(0); getGroups() < 1 || rows % int64_t(getGroups())) // contract_c5
    return emitOpError("has sums of ") << rows << " rows for " << getGroups() << " groups";
  return success();
}

static LogicalResult verifySlot(Operation *op, BlockType block, Value panel) {
  if (gguf::getPackedLayout(block.getElement()).isFloat || columnsOf(panel) != decodedBytes(block.getElement())) // decode_c2, load_decoded_c1
    return op->emitOpError("has slots of ") << columnsOf(panel) << " bytes for decoded blocks of "
                                            << gguf::stringifyElementType(block.getElement());
  return success();
}

LogicalResult DecodeOp::verify() {
  if (!getBlock().getDefiningOp<LoadQuantOp>()) // decode_c1
    return emitOpError("decodes what is no packed block");
  return verifySlot(*this, getBlock().getType(), getPanel());
}

LogicalResult LoadDecodedOp::verify() { return verifySlot(*this, getResult().getType(), getPanel()); }

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
