#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_HOISTPERLAYERINPUTSPASS
#include "passes/gemma/Passes.h.inc"
namespace {

/// True when `next` continues the layers of `last` and agrees with it in everything else.
bool continues(PerLayerInputsOp last, PerLayerInputsOp next) {
  return last.getE() == next.getE() && last.getRows() == next.getRows() &&
         last.getFirstLayer() + last.getLayerCount() == next.getFirstLayer() &&
         last.getTableAttr() == next.getTableAttr() && last.getNormAttr() == next.getNormAttr() &&
         last.getProjection().getWeight() == next.getProjection().getWeight() &&
         last.getWidth() == next.getWidth() && last.getEpsAttr() == next.getEpsAttr() &&
         last.getProjectionScaleAttr() == next.getProjectionScaleAttr() &&
         last.getTableScaleAttr() == next.getTableScaleAttr() &&
         last.getCombineScaleAttr() == next.getCombineScaleAttr();
}

void merge(ArrayRef<PerLayerInputsOp> run) {
  PerLayerInputsOp first = run.front(), last = run.back();
  OpBuilder builder(first);
  int64_t width = first.getWidth(), firstLayer = first.getFirstLayer();
  int64_t count = static_cast<int64_t>(last.getFirstLayer() + last.getLayerCount()) - firstLayer;
  auto projection = gguf::PartAttr::get(builder.getContext(), first.getProjection().getWeight(),
                                        firstLayer * width, count * width, 0);
  auto all = PerLayerInputsOp::create(
      builder, first.getLoc(), getActivationType(builder.getContext(), count * width), first.getE(),
      first.getRows(), first.getTableAttr(), projection, first.getNormAttr(), first.getFirstLayerAttr(),
      builder.getI64IntegerAttr(count), first.getWidthAttr(), first.getProjectionScaleAttr(),
      first.getTableScaleAttr(), first.getCombineScaleAttr(), first.getEpsAttr(), IntegerAttr(),
      first.getTapAttr());
  for (PerLayerInputsOp one : run) {
    builder.setInsertionPoint(one);
    auto slice = SliceLayerOp::create(builder, one.getLoc(), one.getResult().getType(), all.getResult(),
                                      all.getFirstLayerAttr(), all.getWidthAttr(),
                                      builder.getI32IntegerAttr(static_cast<int32_t>(one.getFirstLayer())),
                                      TapKindAttr());
    one.getResult().replaceAllUsesWith(slice.getResult());
    one.erase();
  }
}

struct HoistPerLayerInputsPass : impl::HoistPerLayerInputsPassBase<HoistPerLayerInputsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      SmallVector<SmallVector<PerLayerInputsOp>> runs;
      for (auto op : model.getBody().getOps<PerLayerInputsOp>()) {
        if (op.getLayerCount() != 1)
          continue; // hoisted already
        if (runs.empty() || !continues(runs.back().back(), op))
          runs.emplace_back();
        runs.back().push_back(op);
      }
      for (auto &run : runs)
        if (run.size() > 1)
          merge(run);
    }
  }
};

} // namespace
} // namespace g4::gemma
