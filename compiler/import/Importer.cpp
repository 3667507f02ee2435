#include "compiler/import/Importer.h"

#include "compiler/import/Facts.h"
#include "compiler/import/LayerBuilder.h"
#include "compiler/import/Source.h"
#include "compiler/import/Weights.h"
#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace g4::gemma;

namespace g4::importer {
namespace {

ArrayAttr layerAttrs(MLIRContext *context, const ModelFacts &facts) {
  SmallVector<Attribute> layers;
  for (auto [index, layer] : llvm::enumerate(facts.layers))
    layers.push_back(LayerAttr::get(context, layer.sliding ? LayerKind::kSliding : LayerKind::kGlobal,
                                    layer.sharesKv ? KvOwner::kShared : KvOwner::kOwn,
                                    layer.sharesKv ? -1 : static_cast<int64_t>(index), layer.heads,
                                    layer.kvHeads, layer.headDim, layer.ff, layer.experts, layer.expertFf));
  return ArrayAttr::get(context, layers);
}

ModelOp createModel(OpBuilder &builder, Location loc, const ModelFacts &facts,
                    FlatSymbolRefAttr ropeFactors) {
  MLIRContext *context = builder.getContext();
  auto i64 = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  auto rope = [&](int64_t dim, double base, FlatSymbolRefAttr factors, int64_t turning) {
    return RopeAttr::get(context, dim, builder.getF64FloatAttr(base), factors, turning);
  };
  auto model = ModelOp::create(
      builder, loc, builder.getStringAttr("text"), i64(facts.hidden), i64(facts.vocabulary),
      i64(facts.contextLength), i64(facts.window), builder.getF32FloatAttr(facts.eps), i64(facts.expertsUsed),
      i64(facts.perLayerWidth), builder.getF32FloatAttr(facts.softcap),
      rope(facts.ropeDimSliding, facts.ropeBaseSliding, {}, 0),
      rope(facts.ropeDimGlobal, facts.ropeBaseGlobal, ropeFactors, facts.ropeTurning),
      layerAttrs(context, facts), ActivationTypeAttr(), KvElementAttr());
  Block &block = model.getBody().emplaceBlock();
  for (RowSet set : {RowSet::kBody, RowSet::kTail, RowSet::kLogits})
    block.addArgument(RowsType::get(context, set), loc);
  return model;
}

} // namespace

OwningOpRef<ModuleOp> importGguf(MLIRContext &context, ArrayRef<std::string> paths,
                                 const ImportOptions &options) {
  context.loadDialect<gguf::GgufDialect, GemmaDialect>();
  auto source = Source::open(context, paths, options.allowMissingData);
  if (!source)
    return {};
  auto facts = readFacts(*source);
  if (!facts)
    return {};

  OwningOpRef<ModuleOp> module = ModuleOp::create(source->loc());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  SmallVector<StringRef> files(source->paths().begin(), source->paths().end());
  (*module)->setAttr(gguf::kFilesAttr, builder.getStrArrayAttr(files));

  // Weights go in front of the model as its body asks for them.
  Weights weights(*source, builder);
  FlatSymbolRefAttr ropeFactors;
  bool anyGlobal = llvm::any_of(facts->layers, [](const LayerFacts &layer) { return !layer.sliding; });
  if (anyGlobal && facts->ropeTurning == 0)
    ropeFactors = weights.vector(kRopeFactors, facts->ropeDimGlobal / 2).symbol;
  else
    weights.ignore(kRopeFactors);
  if (weights.failed())
    return {};
  ModelOp model = createModel(builder, source->loc(), *facts, ropeFactors);
  weights.insertBefore(model);
  OpBuilder body = OpBuilder::atBlockEnd(&model.getBody().front());
  if (failed(buildBody(body, *source, *facts, weights, model.getBody().front())) ||
      failed(weights.checkRest()))
    return {};
  if (failed(verify(*module))) {
    emitError(source->loc()) << "the imported model does not verify; this is a bug in the importer";
    return {};
  }
  return module;
}

} // namespace g4::importer
