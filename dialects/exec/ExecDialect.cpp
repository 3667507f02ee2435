#include "dialects/exec/ExecDialect.h"
#include "dialects/exec/Signature.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.cpp.inc"

namespace g4::exec {

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/ExecAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/ExecOps.cpp.inc"
      >();
}

BufferOp bufferOf(Value value) {
  if (auto columns = value.getDefiningOp<ColumnsOp>())
    return bufferOf(columns.getBuffer());
  return value.getDefiningOp<BufferOp>();
}

int64_t ProgramOp::capacity(RowSet set) {
  switch (set) {
  case RowSet::rows:
    return getMaxRows();
  case RowSet::tail:
    return getMaxTailRows();
  case RowSet::logits:
    return getMaxLogitRows();
  case RowSet::single:
    return 1;
  }
  return 0;
}

LogicalResult ProgramOp::verify() {
  if (getMaxLogitRows() <= 0 || getMaxTailRows() < getMaxLogitRows() || getMaxRows() < getMaxTailRows()) // program_c1
    return emitOpError("has room for ") << getMaxRows() << " rows, " << getMaxTailRows() << " tail rows and "
                                        << getMaxLogitRows() << " logit rows: each holds the next";
  return success();
}

LogicalResult ReturnOp::verify() {
  if (getOutputs().size() != getNames().size()) // return_c1
    return emitOpError("has ") << getOutputs().size() << " outputs and " << getNames().size() << " names";
  return success();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError, RowSet, int64_t copies, int64_t columns,
                                 Type element) {
  if (copies <= 0 || columns <= 0) // buffer_c1
    return emitError() << "a buffer of " << copies << " x " << columns << " elements a row";
  if (!element.isF32() && !element.isSignlessInteger(32) && !element.isSignlessInteger(8)) // buffer_c2
    return emitError() << "a buffer of " << element << ", expected f32, i32 or i8";
  return success();
}

LogicalResult ColumnsOp::verify() {
  if (getResult().getType() != getBuffer().getType()) // columns_c1
    return emitOpError("gives ") << getResult().getType() << " of " << getBuffer().getType() << ": rows stay as far apart";
  if (int64_t n = getBuffer().getType().getColumns(); getFirst() < 0 || getFirst() >= uint64_t(n)) // columns_c2
    return emitOpError("starts at column ") << getFirst() << " of " << n;
  return success();
}

LogicalResult WeightOp::verify() {
  auto part = dyn_cast<gguf::PartAttr>(getPart());
  if (!part) // weight_c1
    return emitOpError("part is not a #gguf.part");
  MatrixAttr m = getMatrix();
  if (m.getColumns() <= 0 || m.getRows() <= 0 || m.getRows() % part.getRows()) // weight_c2
    return emitOpError("stores ") << m.getRows() << "x" << m.getColumns() << " of a part of " << part.getRows() << " rows";
  if (getOffset().has_value() != getSize().has_value() || getOffset().value_or(0) < 0) // weight_c3
    return emitOpError("has only half of a place in the artifact");
  return success();
}

LogicalResult KvOp::verify() {
  if (getLayer() < 0 || getHeads() <= 0 || getDim() <= 0 || getWindow() < 0) // kv_c1
    return emitOpError("has ") << getHeads() << " heads of " << getDim() << " in layer " << getLayer() << " with a window of "
                               << getWindow();
  if (!kvLayout(getElement().getValue(), getHeads(), getDim())) // kv_c2
    return emitOpError("has no pages of ") << gguf::stringifyElementType(getElement().getValue()) << " for heads of " << getDim();
  return success();
}

LogicalResult KernelOp::verify() {
  if (failed(verifySpec(getSpec(), [&] { return emitOpError(); }))) // kernel_c1
    return failure();
  if (getBody().empty())
    return success();
  SmallVector<Argument> arguments = signatureOf(getSpec());
  if (!getBody().hasOneBlock() || getBody().getNumArguments() != arguments.size() + 2) // kernel_c2
    return emitOpError("body takes ") << getBody().getNumArguments() << " arguments, its signature has "
                                      << arguments.size() << " and two for the work items";
  for (auto [i, type] : llvm::enumerate(getBody().getArgumentTypes())) { // kernel_c3
    Type wanted = i < arguments.size() ? Type(arguments[i].type()) : IndexType::get(getContext());
    if (type != wanted)
      return emitOpError("body's argument ") << i << " is " << type << ", its signature says " << wanted;
  }
  return success();
}

/// What an operand is must be what the kernel takes it for: rows of that many elements, or a weight or slot of them.
static bool fits(Value operand, const Argument &argument) {
  bool flat = argument.columns == 0;
  if (auto type = dyn_cast<BufferType>(operand.getType())) {
    int64_t n = type.getColumns();
    return type.getElement() == argument.element && (flat || argument.columns == n || argument.columns == n * type.getCopies());
  }
  if (auto weight = operand.getDefiningOp<WeightOp>())
    return flat && !argument.written && argument.element.isF32() == (weight.getStorage() == Storage::vector) &&
           (argument.element.isF32() || argument.element.isSignlessInteger(8));
  if (auto kv = operand.getDefiningOp<KvOp>())
    return flat && argument.element == kvMemoryType(kv.getContext(), kv.getElement().getValue(), argument.name == kKvScales);
  if (auto slot = operand.getDefiningOp<SlotOp>()) {
    bool rope = slot.getKind() == SlotKind::rope_sliding || slot.getKind() == SlotKind::rope_global;
    return !argument.written && (rope ? argument.element.isF32() : flat && argument.element.isSignlessInteger(32));
  }
  return false;
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel) // dispatch_c1
    return emitOpError("no kernel named ") << getKernelAttr();
  SmallVector<Argument> arguments = signatureOf(kernel.getSpec());
  size_t reads = llvm::count_if(arguments, [](const Argument &a) { return !a.written; }), writes = arguments.size() - reads;
  if (reads != getReads().size() || writes != getWrites().size()) // dispatch_c2
    return emitOpError("reads ") << getReads().size() << " and writes " << getWrites().size() << " operands, but "
                                 << getKernelAttr() << " reads " << reads << " and writes " << writes;
  for (auto [operand, argument] : llvm::zip(getOperands(), arguments)) // dispatch_c3
    if (!fits(operand, argument))
      return emitOpError("passes ") << operand << " as '" << argument.name << "', which is " << argument.type();
  Geometry geometry = geometryOf(kernel.getSpec());
  if (int64_t(getRowsPerItem()) != geometry.rowsPerItem || int64_t(getItemsPerBlock()) != geometry.itemsPerBlock) // dispatch_c4
    return emitOpError("has ") << getItemsPerBlock() << " items for " << getRowsPerItem() << " rows, but " << getKernelAttr()
                               << " has " << geometry.itemsPerBlock << " for " << geometry.rowsPerItem;
  if (getTapOperands().size() != getTapNames().size()) // dispatch_c5
    return emitOpError("has ") << getTapOperands().size() << " tapped operands and " << getTapNames().size() << " names";
  for (int64_t tap : getTapOperands()) // dispatch_c5
    if (tap < 0 || size_t(tap) >= writes)
      return emitOpError("taps written operand ") << tap << " of " << writes;
  return success();
}

} // namespace g4::exec
