// Verifiers of the ops. The label after each check is the constraint's in the op's documentation.
#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "dialects/gemma/GemmaOps.cpp.inc"

namespace g4::gemma {
namespace {

/// The weight that `ref` names, or null after an error.
gguf::WeightOp lookup(Operation *op, SymbolTableCollection &tables, FlatSymbolRefAttr ref) {
  auto weight = tables.lookupNearestSymbolFrom<gguf::WeightOp>(op, ref);
  if (!weight)
    op->emitOpError() << "uses " << ref << ", which is no gguf.weight";
  return weight;
}

/// `ref` must be one row of `length` floats.
LogicalResult checkVector(Operation *op, SymbolTableCollection &tables, FlatSymbolRefAttr ref,
                          const char *name, int64_t length) {
  gguf::WeightOp weight = lookup(op, tables, ref);
  if (!weight)
    return failure();
  gguf::MatrixType type = weight.getMatrixType();
  if (type.getRows() != 1 || type.getColumns() != length || !gguf::isFloat(type.getElement()))
    return op->emitOpError() << name << " is " << type << ", expected one row of " << length << " floats";
  return success();
}

LogicalResult checkMatrix(Operation *op, SymbolTableCollection &tables, FlatSymbolRefAttr ref,
                          const char *name, int64_t rows, int64_t columns) {
  gguf::WeightOp weight = lookup(op, tables, ref);
  if (!weight)
    return failure();
  gguf::MatrixType type = weight.getMatrixType();
  if (type.getRows() != rows || type.getColumns() != columns)
    return op->emitOpError() << name << " is " << type << ", expected " << rows << " rows of " << columns;
  return success();
}

/// The part must lie inside its weight, whose rows are `columns` long. `experts` is 0 for a plain matrix.
LogicalResult checkPart(Operation *op, SymbolTableCollection &tables, gguf::PartAttr part, const char *name,
                        int64_t columns, int64_t experts) {
  gguf::WeightOp weight = lookup(op, tables, part.getWeight());
  if (!weight)
    return failure();
  gguf::MatrixType type = weight.getMatrixType();
  if (type.getColumns() != columns)
    return op->emitOpError() << name << " " << part.getWeight() << " has rows of " << type.getColumns()
                             << ", expected " << columns;
  if (experts == 0) {
    if (part.getStride() != 0)
      return op->emitOpError() << name << " has stride " << part.getStride() << ", expected a plain matrix";
    if (part.getFirst() + part.getRows() > type.getRows())
      return op->emitOpError() << name << " ends at row " << part.getFirst() + part.getRows() << " of "
                               << part.getWeight() << ", which has " << type.getRows();
    return success();
  }
  if (part.getStride() <= 0 || part.getStride() * experts != type.getRows())
    return op->emitOpError() << name << " is a stack of " << experts << " experts of " << part.getStride()
                             << " rows, but " << part.getWeight() << " has " << type.getRows() << " rows";
  return success();
}

LogicalResult checkHeads(Operation *op, int64_t columns, int64_t heads, const char *what) {
  if (heads <= 0 || columns % heads)
    return op->emitOpError() << "has " << columns << " columns, which " << heads << " " << what
                             << " do not divide";
  return success();
}

LogicalResult checkEps(Operation *op, APFloat eps) {
  if (!(eps.convertToFloat() > 0.0f))
    return op->emitOpError("has an eps that is not positive");
  return success();
}

LogicalResult checkHasLayer(Operation *op) {
  std::optional<int64_t> layer = getLayer(op);
  if (!layer || *layer < 0)
    return op->emitOpError("does not say which layer it is part of");
  return success();
}

LogicalResult checkColumns(Operation *op, const char *name, Value value, int64_t expected) {
  if (getColumns(value) != expected)
    return op->emitOpError() << name << " has " << getColumns(value) << " columns, expected " << expected;
  return success();
}

} // namespace

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &tables) {
  gguf::WeightOp table = lookup(*this, tables, getTableAttr());
  if (!table)
    return failure();
  return checkColumns(*this, "result", getResult(), table.getMatrixType().getColumns()); // embed_c1
}

LogicalResult RmsNormOp::verify() {
  if (failed(checkHeads(*this, getColumns(getX()), getGroups(), "groups"))) // rms_norm_c2
    return failure();
  return checkEps(*this, getEps()); // rms_norm_c4
}

LogicalResult RmsNormOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!getGainAttr())
    return success();
  int64_t length = getColumns(getX()) / static_cast<int64_t>(getGroups());
  return checkVector(*this, tables, getGainAttr(), "gain", length); // rms_norm_c3
}

LogicalResult LinearOp::verify() {
  if (getParts().empty() || getParts().size() != getOutputs().size()) // linear_c1
    return emitOpError() << "has " << getParts().size() << " parts and " << getOutputs().size()
                         << " results, expected as many, at least one";
  for (unsigned i = 0; i < getOutputs().size(); ++i) // linear_c2
    if (getColumns(getOutputs()[i]) != getPart(i).getRows())
      return emitOpError() << "result " << i << " has " << getColumns(getOutputs()[i])
                           << " columns, but its part has " << getPart(i).getRows() << " rows";
  return success();
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (auto part : getParts().getAsRange<gguf::PartAttr>()) // linear_c3, linear_c4
    if (failed(checkPart(*this, tables, part, "part", getColumns(getX()), /*experts=*/0)))
      return failure();
  return success();
}

LogicalResult RopeOp::verify() {
  if (failed(checkHeads(*this, getColumns(getX()), getHeads(), "heads"))) // rope_c2
    return failure();
  auto model = (*this)->getParentOfType<ModelOp>();
  if (!model)
    return success();
  int64_t dim = getColumns(getX()) / static_cast<int64_t>(getHeads());
  if (dim != model.getRope(getKind()).getDim()) // rope_c3
    return emitOpError() << "turns heads of " << dim << " elements, but the model's "
                         << stringifyLayerKind(getKind()) << " rope has dim "
                         << model.getRope(getKind()).getDim();
  return success();
}

LogicalResult KvAppendOp::verify() {
  KvType kv = getKv().getType();
  if (failed(checkColumns(*this, "k", getK(), kv.getHeads() * kv.getDim()))) // kv_append_c2
    return failure();
  if (getRows().getType().getSet() != RowSet::kBody) // kv_append_c3
    return emitOpError() << "writes the " << stringifyRowSet(getRows().getType().getSet())
                         << " rows, expected all body rows";
  return checkHasLayer(*this); // kv_append_c4
}

LogicalResult KvSharedOp::verify() { return checkHasLayer(*this); } // kv_shared_c1

LogicalResult AttentionOp::verify() {
  KvType kv = getKv().getType();
  int64_t heads = getHeads();
  if (failed(checkColumns(*this, "q", getQ(), heads * kv.getDim()))) // attention_c2
    return failure();
  if (heads <= 0 || heads % kv.getHeads()) // attention_c3
    return emitOpError() << "has " << heads << " heads, which is not a multiple of " << kv.getHeads()
                         << " K/V heads";
  return checkHasLayer(*this); // attention_c4
}

LogicalResult ScaleOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkVector(*this, tables, getByAttr(), "by", 1); // scale_c2
}

LogicalResult PerLayerInputsOp::verify() {
  int64_t width = getWidth(), count = getLayerCount(), first = getFirstLayer();
  if (width <= 0 || count <= 0 || first < 0) // per_layer_inputs_c5
    return emitOpError() << "has first_layer " << first << ", layer_count " << count << " and width "
                         << width;
  if (failed(checkEps(*this, getEps()))) // per_layer_inputs_c5
    return failure();
  if (failed(checkColumns(*this, "result", getResult(), count * width))) // per_layer_inputs_c1
    return failure();
  gguf::PartAttr part = getProjection();
  if (part.getFirst() != first * width || part.getRows() != count * width) // per_layer_inputs_c2
    return emitOpError() << "projects with rows [" << part.getFirst() << ", "
                         << part.getFirst() + part.getRows() << "), expected [" << first * width << ", "
                         << (first + count) * width << ")";
  return success();
}

LogicalResult PerLayerInputsOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(checkPart(*this, tables, getProjection(), "projection", getColumns(getE()),
                       /*experts=*/0)) ||                                    // per_layer_inputs_c2
      failed(checkVector(*this, tables, getNormAttr(), "norm", getWidth()))) // per_layer_inputs_c3
    return failure();
  gguf::WeightOp table = lookup(*this, tables, getTableAttr());
  if (!table)
    return failure();
  int64_t end = static_cast<int64_t>((getFirstLayer() + getLayerCount()) * getWidth());
  if (table.getMatrixType().getColumns() < end) // per_layer_inputs_c4
    return emitOpError() << "needs column " << end << " of " << getTableAttr() << ", which has "
                         << table.getMatrixType().getColumns();
  return success();
}

LogicalResult SliceLayerOp::verify() {
  if (failed(checkHasLayer(*this))) // slice_layer_c1
    return failure();
  if (failed(checkColumns(*this, "result", getResult(), getWidth()))) // slice_layer_c2
    return failure();
  int64_t index = *getLayer() - static_cast<int64_t>(getFirstLayer());
  if (index < 0 || (index + 1) * static_cast<int64_t>(getWidth()) > getColumns(getInputs())) // slice_layer_c3
    return emitOpError() << "takes layer " << *getLayer() << " of inputs that start at layer "
                         << getFirstLayer() << " and have " << getColumns(getInputs()) << " columns";
  return success();
}

LogicalResult RouteOp::verify() {
  int64_t used = getUsed(), experts = getExperts();
  if (used <= 0 || used > experts) // route_c2
    return emitOpError() << "uses " << used << " of " << experts << " experts";
  if (failed(checkEps(*this, getEps()))) // route_c2
    return failure();
  if (failed(checkColumns(*this, "ids", getIds(), used))) // route_c1
    return failure();
  return checkColumns(*this, "weights", getWeights(), used); // route_c1
}

LogicalResult RouteOp::verifySymbolUses(SymbolTableCollection &tables) {
  int64_t experts = getExperts(), columns = getColumns(getX());
  if (failed(checkMatrix(*this, tables, getRouterAttr(), "router", experts, columns)) || // route_c3
      failed(checkVector(*this, tables, getScaleAttr(), "scale", columns)))              // route_c4
    return failure();
  return checkVector(*this, tables, getExpertScaleAttr(), "expert_scale", experts); // route_c4
}

LogicalResult ExpertsOp::verify() {
  if (getColumns(getIds()) != getColumns(getWeights())) // experts_c2
    return emitOpError() << "has " << getColumns(getIds()) << " ids and " << getColumns(getWeights())
                         << " weights a row";
  if (getGate().getRows() != getUp().getRows()) // experts_c3
    return emitOpError() << "gate has " << getGate().getRows() << " rows an expert, up has "
                         << getUp().getRows();
  if (getDown().getRows() != getColumns(getX())) // experts_c4
    return emitOpError() << "down has " << getDown().getRows() << " rows an expert, but x has "
                         << getColumns(getX()) << " columns";
  if (static_cast<int64_t>(getExperts()) <= 0) // experts_c5
    return emitOpError("has no experts");
  return success();
}

LogicalResult ExpertsOp::verifySymbolUses(SymbolTableCollection &tables) {
  int64_t columns = getColumns(getX()), experts = getExperts();
  if (failed(checkPart(*this, tables, getGate(), "gate", columns, experts)) || // experts_c3, experts_c5
      failed(checkPart(*this, tables, getUp(), "up", columns, experts)))       // experts_c3, experts_c5
    return failure();
  return checkPart(*this, tables, getDown(), "down", getGate().getRows(), experts); // experts_c4, experts_c5
}

LogicalResult LogitsOp::verify() {
  if (!(getSoftcap().convertToFloat() >= 0.0f)) // logits_c2
    return emitOpError("has a negative softcap");
  return success();
}

LogicalResult LogitsOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkMatrix(*this, tables, getHeadAttr(), "head", getColumns(getResult()), // logits_c1
                     getColumns(getH()));
}

} // namespace g4::gemma
