// Which row set a value is on. Tensor types do not say it; the ops do.
#include "dialects/gemma/GemmaDialect.h"

using namespace mlir;

namespace g4::gemma {

std::optional<RowSet> getRowSet(Value value) {
  // An op without a row set of its own has its first operand's.
  while (Operation *op = value.getDefiningOp()) {
    if (isa<KvType>(value.getType()))
      return std::nullopt;
    for (Value operand : op->getOperands())
      if (auto rows = dyn_cast<RowsType>(operand.getType()))
        return rows.getSet();
    if (op->getNumOperands() == 0)
      return std::nullopt;
    value = op->getOperand(0);
  }
  if (auto rows = dyn_cast<RowsType>(value.getType()))
    return rows.getSet();
  return std::nullopt;
}

} // namespace g4::gemma
