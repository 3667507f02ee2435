#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_PRUNEROWSPASS
#include "passes/gemma/Passes.h.inc"
namespace {

class Pruner {
public:
  explicit Pruner(ModelOp model)
      : model_(model), tail_(model.getRows(RowSet::kTail)), builder_(model.getContext()) {}

  void run() {
    findDemand();
    for (Operation *op : movable_)
      moveToTail(op);
    dropSelections();
    eraseDead();
  }

private:
  void findDemand();
  void moveToTail(Operation *op);
  Value onTail(Value value, Operation *user);
  void dropSelections();
  void eraseDead();

  bool isBody(Value value) const {
    return getRowSet(value) == RowSet::kBody && !isa<RowsType>(value.getType());
  }

  ModelOp model_;
  Value tail_;
  OpBuilder builder_;
  llvm::SmallVector<Operation *> movable_; // ops on body rows that only tail rows need, in order
  llvm::DenseSet<Operation *> moved_;
  llvm::DenseMap<Value, Value> selected_; // body value -> the same on tail rows
};

/// An op must stay on the body rows when K/V needs it; all others move.
void Pruner::findDemand() {
  llvm::DenseSet<Operation *> pinned;
  for (Operation &op : llvm::reverse(model_.getBody().front())) {
    if (isa<KvAppendOp>(op))
      pinned.insert(&op);
    if (!pinned.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        pinned.insert(producer);
  }
  for (Operation &op : model_.getBody().front())
    if (op.getNumResults() && isBody(op.getResult(0)) && !pinned.contains(&op))
      movable_.push_back(&op);
  moved_.insert(movable_.begin(), movable_.end());
}

/// `value` on the tail rows, for `user`, which is the first to need it there.
Value Pruner::onTail(Value value, Operation *user) {
  if (!isBody(value) || moved_.contains(value.getDefiningOp()))
    return value;
  if (Value known = selected_.lookup(value))
    return known;
  Operation *producer = value.getDefiningOp();
  Value result;
  if (isa<RmsNormOp, EmbedOp>(producer)) {
    // As cheap as selecting, and nothing of the body has to be kept for it.
    IRMapping mapping;
    for (Value operand : producer->getOperands())
      mapping.map(operand, isa<RowsType>(operand.getType()) ? tail_ : onTail(operand, user));
    builder_.setInsertionPoint(user);
    Operation *copy = builder_.clone(*producer, mapping);
    copy->removeAttr("tap"); // the original keeps the name
    result = copy->getResult(0);
  } else {
    builder_.setInsertionPoint(user);
    auto layer = user->getAttrOfType<IntegerAttr>("layer");
    result =
        SelectRowsOp::create(builder_, value.getLoc(), value.getType(), value, tail_, layer, TapKindAttr());
  }
  selected_[value] = result;
  return result;
}

void Pruner::moveToTail(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (isa<RowsType>(operand.get().getType()))
      operand.set(tail_);
    else
      operand.set(onTail(operand.get(), op));
  }
}

/// Selections of what is on the tail rows by now.
void Pruner::dropSelections() {
  for (auto select : llvm::make_early_inc_range(model_.getBody().getOps<SelectRowsOp>())) {
    std::optional<RowSet> from = getRowSet(select.getX());
    if (!from || *from != select.getRows().getType().getSet())
      continue;
    select.getResult().replaceAllUsesWith(select.getX());
    select.erase();
  }
}

void Pruner::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(model_.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct PruneRowsPass : impl::PruneRowsPassBase<PruneRowsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      Pruner(model).run();
  }
};

} // namespace
} // namespace g4::gemma
