#include "passes/gemma/Passes.h"

#include "dialects/gemma/GemmaDialect.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_QUANTIZEPASS
#include "passes/gemma/Passes.h.inc"
namespace {

struct QuantizePass : impl::QuantizePassBase<QuantizePass> {
  using QuantizePassBase::QuantizePassBase;

  void runOnOperation() override {
    std::optional<ActivationType> activation = symbolizeActivationType(activations.getValue());
    if (!activation) {
      getOperation().emitError() << "activations are '" << activations.getValue()
                                 << "', expected int8 or f32";
      return signalPassFailure();
    }
    std::optional<KvElement> element = symbolizeKvElement(kv.getValue());
    if (!element) {
      getOperation().emitError() << "K/V is '" << kv.getValue() << "', expected f32, f16 or bf16";
      return signalPassFailure();
    }
    if (*activation == ActivationType::kF32 && *element != KvElement::kF32) {
      getOperation().emitError() << "f32 activations need f32 K/V, but K/V is " << kv.getValue();
      return signalPassFailure();
    }
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      model.setActivationsAttr(ActivationTypeAttr::get(&getContext(), *activation));
      model.setKvTypeAttr(KvElementAttr::get(&getContext(), *element));
    }
  }
};

} // namespace
} // namespace g4::gemma
