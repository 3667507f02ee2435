#include "passes/gemma/Passes.h"

#include "compiler/quants/Imatrix.h"
#include "compiler/quants/Recipe.h"
#include "dialects/gemma/GemmaDialect.h"
#include "dialects/gguf/GgufDialect.h"
#include "runtime/base/Text.h"

#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace g4::gemma {
#define GEN_PASS_DEF_QUANTIZEPASS
#include "passes/gemma/Passes.h.inc"
namespace {

struct QuantizePass : impl::QuantizePassBase<QuantizePass> {
  using QuantizePassBase::QuantizePassBase;

  /// Options and files are to blame, not a place in the module.
  LogicalResult report(const Status &status) {
    return emitError(UnknownLoc::get(&getContext())) << status.message();
  }

  FailureOr<quants::Recipe> makeRecipe() {
    std::optional<gguf::Type> base;
    if (!quantize.empty() && !(base = quants::typeNamed(quantize.getValue())))
      return report(invalidArgument(quotedName(quantize.getValue()) + " is no type to quantise to: " + quants::typeNames()));
    std::unique_ptr<llvm::MemoryBuffer> text;
    if (!rules.empty()) {
      auto file = llvm::MemoryBuffer::getFile(rules.getValue(), /*IsText=*/true);
      if (!file)
        return report(invalidArgument("cannot read " + quotedPath(rules.getValue()) + ": " + file.getError().message()));
      text = std::move(*file);
    }
    int layers = 0;
    for (ModelOp model : getOperation().getOps<ModelOp>())
      layers = static_cast<int>(model.getLayerFacts().size());
    auto made = quants::Recipe::make(base, text ? std::string_view(text->getBuffer()) : "", rules.getValue(), layers);
    if (!made.ok())
      return report(made.status());
    return *std::move(made);
  }

  LogicalResult quantizeWeights() {
    auto recipe = makeRecipe();
    if (failed(recipe))
      return failure();
    SymbolTable symbols(getOperation());
    SmallVector<gguf::WeightOp> converted;
    for (auto weight : getOperation().getOps<gguf::WeightOp>()) {
      gguf::MatrixType type = weight.getMatrixType();
      if (type.getRows() == 1)
        continue; // a vector: gains and scales
      StringRef name = weight.getSymName(), stem = name;
      bool isValue = name.ends_with(".attn_v.weight") ||
                     (stem.consume_back(".attn_k.weight") && !symbols.lookup((stem + ".attn_v.weight").str()));
      auto wanted = recipe->typeOf({std::string_view(name), static_cast<gguf::Type>(weight.getStoredElement()),
                                    static_cast<uint64_t>(type.getColumns()), isValue});
      if (!wanted.ok())
        return report(wanted.status());
      auto element = static_cast<gguf::ElementType>(*wanted), stored = weight.getStoredElement();
      weight.setType(gguf::MatrixType::get(&getContext(), type.getRows(), type.getColumns(), element));
      weight.setStoredAttr(element == stored ? gguf::ElementTypeAttr() : gguf::ElementTypeAttr::get(&getContext(), stored));
      if (element != stored)
        converted.push_back(weight);
    }
    if (Status status = recipe->checkUsed(); !status.ok())
      return report(status);
    return useImatrix(converted);
  }

  /// Checks the importance matrix against the weights now rather than after minutes of compiling.
  LogicalResult useImatrix(ArrayRef<gguf::WeightOp> converted) {
    if (imatrix.empty())
      return success();
    auto matrix = quants::Imatrix::open(imatrix.getValue());
    if (!matrix.ok())
      return report(matrix.status());
    size_t found = 0;
    for (gguf::WeightOp weight : converted) {
      gguf::MatrixType type = weight.getMatrixType();
      auto columns = matrix->columns(std::string_view(weight.getSymName()), 0, type.getRows(), type.getColumns());
      if (!columns.ok())
        return report(columns.status());
      found += !columns->empty();
    }
    if (!found)
      return report(invalidArgument(quotedName(imatrix.getValue()) + " has none of the " + std::to_string(converted.size()) +
                                    " weights that are quantised"));
    emitRemark(UnknownLoc::get(&getContext())) << "importance for " << found << " of " << converted.size() << " quantised weights";
    getOperation()->setAttr(gguf::kImatrixAttr, StringAttr::get(&getContext(), imatrix.getValue()));
    return success();
  }

  void runOnOperation() override {
    if ((!quantize.empty() || !rules.empty()) && failed(quantizeWeights()))
      return signalPassFailure();
    std::optional<ActivationType> activation = symbolizeActivationType(activations.getValue());
    if (!activation) {
      getOperation().emitError() << "activations are '" << activations.getValue()
                                 << "', expected int8 or f32";
      return signalPassFailure();
    }
    std::optional<KvElement> element = symbolizeKvElement(kv.getValue());
    if (!element) {
      getOperation().emitError() << "K/V is '" << kv.getValue() << "', expected f32, f16, bf16, q8_0 or q4_0";
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
