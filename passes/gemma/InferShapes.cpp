#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_INFERSHAPESPASS
#include "passes/gemma/Passes.h.inc"
namespace {

/// What a layer's ops say about it; 0 where they say nothing.
struct Found {
  int64_t heads = 0, kvHeads = 0, headDim = 0, ff = 0, experts = 0, expertFf = 0;
};

void look(Operation *op, Found &found) {
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    KvType kv = attention.getKv().getType();
    found.heads = attention.getHeads();
    found.kvHeads = kv.getHeads();
    found.headDim = kv.getDim();
  } else if (auto linear = dyn_cast<LinearOp>(op)) {
    if (linear.getTap() == TapKind::kMlp)
      found.ff = getColumns(linear.getX());
  } else if (auto experts = dyn_cast<ExpertsOp>(op)) {
    found.experts = experts.getExperts();
    found.expertFf = experts.getGate().getRows();
  }
}

void update(ModelOp model, int64_t index, const Found &found) {
  LayerAttr fact = model.getLayerFact(index);
  auto pick = [&](const char *name, int64_t stated, int64_t seen) {
    if (seen == 0 || seen == stated)
      return stated;
    model.emitWarning() << "layer " << index << ": " << name << " is " << stated << ", but its weights have "
                        << seen;
    return seen;
  };
  int64_t heads = pick("heads", fact.getHeads(), found.heads);
  int64_t kvHeads = pick("kv_heads", fact.getKvHeads(), found.kvHeads);
  int64_t headDim = pick("head_dim", fact.getHeadDim(), found.headDim);
  int64_t ff = pick("ff", fact.getFf(), found.ff);
  int64_t experts = pick("experts", fact.getExperts(), found.experts);
  int64_t expertFf = pick("expert_ff", fact.getExpertFf(), found.expertFf);
  model.setLayerFact(index,
                     LayerAttr::get(model.getContext(), fact.getKind(), fact.getKv(), fact.getKvSource(),
                                    heads, kvHeads, headDim, ff, experts, expertFf));
}

struct InferShapesPass : impl::InferShapesPassBase<InferShapesPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      SmallVector<Found> found(model.getLayerCount());
      model.getBody().walk([&](Operation *op) {
        std::optional<int64_t> layer = getLayer(op);
        if (layer && *layer >= 0 && *layer < model.getLayerCount())
          look(op, found[*layer]);
      });
      for (auto [index, layer] : llvm::enumerate(found))
        update(model, static_cast<int64_t>(index), layer);
    }
  }
};

} // namespace
} // namespace g4::gemma
