#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_RESOLVEDONORSPASS
#include "passes/gemma/Passes.h.inc"
namespace {

/// The last layer before `index` of its kind that has K/V of its own, or -1.
int64_t findDonor(ModelOp model, int64_t index) {
  for (int64_t i = index - 1; i >= 0; --i)
    if (model.getLayerFact(i).ownsKv() &&
        model.getLayerFact(i).getKind() == model.getLayerFact(index).getKind())
      return i;
  return -1;
}

LogicalResult resolve(ModelOp model, KvSharedOp shared, const DenseMap<int64_t, Value> &written) {
  int64_t layer = *getLayer(shared);
  if (layer >= model.getLayerCount())
    return shared.emitOpError() << "is part of layer " << layer << ", but the model has "
                                << model.getLayerCount();
  LayerAttr fact = model.getLayerFact(layer);
  int64_t donor = findDonor(model, layer);
  Value kv = written.lookup(donor);
  if (!kv)
    return shared.emitOpError() << "has no donor: no " << stringifyLayerKind(fact.getKind())
                                << " layer before layer " << layer << " writes K/V";
  if (kv.getType() != shared.getKv().getType())
    return shared.emitOpError() << "expects " << shared.getKv().getType() << ", but its donor, layer "
                                << donor << ", writes " << kv.getType();
  shared.getKv().replaceAllUsesWith(kv);
  shared.erase();
  model.setLayerFact(layer, fact.withKvSource(donor));
  return success();
}

struct ResolveDonorsPass : impl::ResolveDonorsPassBase<ResolveDonorsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      // Layers whose K/V was written above the current op.
      DenseMap<int64_t, Value> written;
      for (Operation &op : llvm::make_early_inc_range(model.getBody().front())) {
        if (auto append = dyn_cast<KvAppendOp>(op))
          written[*getLayer(append)] = append.getKv();
        else if (auto shared = dyn_cast<KvSharedOp>(op); shared && failed(resolve(model, shared, written)))
          return signalPassFailure();
      }
    }
  }
};

} // namespace
} // namespace g4::gemma
