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

LogicalResult WeightOp::verify() {
  if (!isa<gguf::PartAttr>(getPart()))
    return emitOpError("part is not a #gguf.part");
  return success();
}

LogicalResult KernelOp::verify() {
  if (!hasSignature(getSpec()))
    return emitOpError("has no kernel specification: ") << getSpec();
  if (getBody().empty())
    return success();
  SmallVector<Argument> arguments = signatureOf(getSpec());
  if (getBody().getNumArguments() != arguments.size() + 2)
    return emitOpError("body takes ") << getBody().getNumArguments() << " arguments, its signature has "
                                      << arguments.size() << " and two for the work items";
  return success();
}

LogicalResult DispatchOp::verify() {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOp()->getParentOp(), getKernelAttr());
  if (!kernel) // dispatch_c1
    return emitOpError("no kernel named ") << getKernelAttr();
  size_t reads = 0, writes = 0;
  for (const Argument &a : signatureOf(kernel.getSpec()))
    ++(a.written ? writes : reads);
  if (reads != getReads().size() || writes != getWrites().size()) // dispatch_c2
    return emitOpError("reads ") << getReads().size() << " and writes " << getWrites().size() << " operands, but "
                                 << getKernelAttr() << " reads " << reads << " and writes " << writes;
  if (getTapOperands().size() != getTapNames().size())
    return emitOpError("has ") << getTapOperands().size() << " tapped operands and " << getTapNames().size() << " names";
  for (int64_t tap : getTapOperands()) // dispatch_c3
    if (tap < 0 || size_t(tap) >= writes)
      return emitOpError("taps written operand ") << tap << " of " << writes;
  return success();
}

} // namespace g4::exec
