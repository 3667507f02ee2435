#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace g4::gemma {

void ModelOp::setLayerFact(int64_t index, LayerAttr fact) {
  SmallVector<Attribute> facts(getLayerFacts().getValue());
  facts[index] = fact;
  setLayerFactsAttr(ArrayAttr::get(getContext(), facts));
}

static LogicalResult verifySizes(ModelOp model) {
  struct {
    const char *name;
    int64_t value;
    int64_t least;
  } sizes[] = {{"hidden", int64_t(model.getHidden()), 1},
               {"vocabulary", int64_t(model.getVocabulary()), 1},
               {"context_length", int64_t(model.getContextLength()), 1},
               {"window", int64_t(model.getWindow()), 1},
               {"experts_used", int64_t(model.getExpertsUsed()), 0},
               {"per_layer_width", int64_t(model.getPerLayerWidth()), 0}};
  for (auto &size : sizes) // model_c3
    if (size.value < size.least)
      return model.emitOpError() << "has " << size.name << " " << size.value << ", expected at least "
                                 << size.least;
  if (!(model.getEps().convertToFloat() > 0.0f)) // model_c3
    return model.emitOpError("has an eps that is not positive");
  if (!(model.getSoftcap().convertToFloat() >= 0.0f)) // model_c3
    return model.emitOpError("has a negative softcap");
  return success();
}

static LogicalResult verifyLayer(ModelOp model, int64_t index) {
  LayerAttr layer = model.getLayerFact(index);
  auto error = [&]() { return model.emitOpError() << "layer " << index << ": "; };
  if (layer.getHeadDim() != model.getRope(layer.getKind()).getDim()) // model_c5
    return error() << "a head has " << layer.getHeadDim() << " elements, but the rope of its kind turns "
                   << model.getRope(layer.getKind()).getDim();
  if (layer.ownsKv()) { // model_c2
    if (layer.getKvSource() != index)
      return error() << "owns its K/V, but kv_source is " << layer.getKvSource();
    return success();
  }
  if (layer.getKvSource() == -1)
    return success();
  if (layer.getKvSource() >= index) // model_c2
    return error() << "kv_source " << layer.getKvSource() << " is not an earlier layer";
  LayerAttr source = model.getLayerFact(layer.getKvSource());
  if (!source.ownsKv() || source.getKind() != layer.getKind()) // model_c2
    return error() << "kv_source " << layer.getKvSource() << " is not a "
                   << stringifyLayerKind(layer.getKind()) << " layer with K/V of its own";
  if (source.getHeadDim() != layer.getHeadDim() || source.getKvHeads() != layer.getKvHeads()) // model_c2
    return error() << "has " << layer.getKvHeads() << " K/V heads of " << layer.getHeadDim()
                   << " elements, but its kv_source has " << source.getKvHeads() << " of "
                   << source.getHeadDim();
  return success();
}

LogicalResult ModelOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != 3) // model_c1
    return emitOpError() << "has " << block.getNumArguments() << " arguments, expected the 3 row sets";
  for (auto [index, argument] : llvm::enumerate(block.getArguments())) { // model_c1
    auto rows = dyn_cast<RowsType>(argument.getType());
    if (!rows || rows.getSet() != static_cast<RowSet>(index))
      return emitOpError() << "argument " << index << " is " << argument.getType() << ", expected rows<"
                           << stringifyRowSet(static_cast<RowSet>(index)) << ">";
  }
  if (getLayerFacts().empty()) // model_c2
    return emitOpError("has no layers");
  if (failed(verifySizes(*this)))
    return failure();
  bool anyExperts = false;
  for (int64_t i = 0; i < getLayerCount(); ++i) {
    anyExperts |= getLayerFact(i).getExperts() > 0;
    if (failed(verifyLayer(*this, i)))
      return failure();
  }
  if (anyExperts != (getExpertsUsed() > 0)) // model_c6
    return emitOpError() << "has experts_used " << getExpertsUsed() << ", but "
                         << (anyExperts ? "some layer has" : "no layer has") << " experts";
  if (!isa<ReturnOp>(block.getTerminator()))
    return emitOpError("does not end in gemma.return");
  return success();
}

LogicalResult ModelOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (RopeAttr rope : {getRopeSliding(), getRopeGlobal()}) {
    if (!rope.getFactors())
      continue;
    auto weight = tables.lookupNearestSymbolFrom<gguf::WeightOp>(*this, rope.getFactors());
    if (!weight)
      return emitOpError() << "has rope factors " << rope.getFactors() << ", which is no gguf.weight";
    gguf::MatrixType type = weight.getMatrixType();
    if (type.getRows() != 1 || type.getColumns() != rope.getDim() / 2 ||
        !gguf::isFloat(type.getElement())) // model_c7
      return emitOpError() << "has rope factors " << type << ", expected one row of " << rope.getDim() / 2
                           << " floats";
  }
  return success();
}

// model_c4, return_c2: values of different row sets meet only in select_rows.
LogicalResult ModelOp::verifyRegions() {
  DenseMap<Value, RowSet> sets;
  for (BlockArgument argument : getBody().getArguments())
    if (auto rows = dyn_cast<RowsType>(argument.getType()))
      sets[argument] = rows.getSet();
  for (Operation &op : getBody().front()) {
    if (auto result = dyn_cast<ReturnOp>(op)) {
      for (auto [value, expected] :
           {std::pair(result.getLogits(), RowSet::kLogits), std::pair(result.getHidden(), RowSet::kTail)}) {
        auto found = sets.find(value);
        if (found != sets.end() && found->second != expected)
          return result.emitOpError() << "returns a value of the " << stringifyRowSet(found->second)
                                      << " rows, expected the " << stringifyRowSet(expected) << " rows";
      }
      continue;
    }
    std::optional<RowSet> set;
    if (auto select = dyn_cast<SelectRowsOp>(op)) {
      set = cast<RowsType>(select.getRows().getType()).getSet();
      auto from = sets.find(select.getX());
      if (from != sets.end() && from->second >= *set) // select_rows_c2
        return op.emitOpError() << "goes from the " << stringifyRowSet(from->second) << " rows to the "
                                << stringifyRowSet(*set) << " rows, which is not a smaller set";
    } else {
      for (Value operand : op.getOperands()) {
        auto found = sets.find(operand);
        if (found == sets.end())
          continue;
        if (set && *set != found->second)
          return op.emitOpError() << "mixes values of the " << stringifyRowSet(*set) << " and the "
                                  << stringifyRowSet(found->second) << " rows";
        set = found->second;
      }
    }
    if (!set)
      continue;
    for (Value result : op.getResults())
      if (!isa<KvType>(result.getType()))
        sets[result] = *set;
  }
  return success();
}

LogicalResult ReturnOp::verify() {
  auto model = cast<ModelOp>((*this)->getParentOp());
  auto check = [&](const char *name, Value value, int64_t expected) -> LogicalResult { // return_c1
    if (getColumns(value) != expected)
      return emitOpError() << name << " has " << getColumns(value) << " columns, but the model has "
                           << expected;
    return success();
  };
  if (failed(check("logits", getLogits(), model.getVocabulary())))
    return failure();
  return check("hidden", getHidden(), model.getHidden());
}

} // namespace g4::gemma
