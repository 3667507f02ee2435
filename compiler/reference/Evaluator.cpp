#include "compiler/reference/Evaluator.h"

#include "compiler/weights/WeightRows.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace g4::gemma;

namespace g4::reference {
namespace {

float toFloat(const APFloat &value) { return value.convertToFloat(); }

/// Ids chosen by a router: [rows, used].
using Choices = std::vector<int32_t>;

class Evaluator {
public:
  Evaluator(ModelOp model, const EvaluateOptions &options, std::unique_ptr<weights::WeightRows> weights)
      : model_(model), options_(options), weights_(std::move(weights)),
        symbols_(model->getParentOfType<ModuleOp>()) {}

  Result<Evaluation> run();

private:
  Status setRows();
  Status visit(Operation *op);

  Status visit(EmbedOp op);
  Status visit(SelectRowsOp op);
  Status visit(RmsNormOp op);
  Status visit(LinearOp op);
  Status visit(RopeOp op);
  Status visit(KvAppendOp op);
  Status visit(KvSharedOp op);
  Status visit(AttentionOp op);
  Status visit(GegluOp op);
  Status visit(AddOp op);
  Status visit(ScaleOp op);
  Status visit(PerLayerInputsOp op);
  Status visit(SliceLayerOp op);
  Status visit(RouteOp op);
  Status visit(ExpertsOp op);
  Status visit(LogitsOp op);

  gguf::WeightOp weight(FlatSymbolRefAttr ref) { return symbols_.lookup<gguf::WeightOp>(ref.getAttr()); }
  /// A one-row weight.
  Result<std::vector<float>> vector(FlatSymbolRefAttr ref);
  /// `x` times the transpose of rows [first, first + rows) of a weight.
  Result<Matrix> multiply(const Matrix &x, FlatSymbolRefAttr ref, int64_t first, int64_t rows);

  RowSet setOf(Value value) { return *getRowSet(value); }
  const std::vector<int64_t> &positions(RowSet set) const { return positions_[static_cast<size_t>(set)]; }
  const Matrix &get(Value value) { return values_[value]; }
  Status set(Value value, Matrix matrix);
  void tap(const std::string &name, Value rowsOf, Matrix values, Choices ids = {});

  ModelOp model_;
  const EvaluateOptions &options_;
  std::unique_ptr<weights::WeightRows> weights_;
  SymbolTable symbols_;
  std::array<std::vector<int64_t>, 3> positions_; // by row set
  llvm::DenseMap<Value, Matrix> values_;
  llvm::DenseMap<Value, Choices> choices_;
  llvm::DenseMap<Value, std::shared_ptr<KeysValues>> kv_;
  std::map<int64_t, std::shared_ptr<KeysValues>> kvOfLayer_;
  Evaluation out_;
};

Status Evaluator::set(Value value, Matrix matrix) {
  if (auto name = getTapName(value.getDefiningOp());
      name && !isa<PerLayerInputsOp, RouteOp>(value.getDefiningOp()))
    tap(*name, value, matrix);
  values_[value] = std::move(matrix);
  return {};
}

void Evaluator::tap(const std::string &name, Value rowsOf, Matrix values, Choices ids) {
  out_.taps[name] = {setOf(rowsOf), std::move(values), std::move(ids)};
}

Result<std::vector<float>> Evaluator::vector(FlatSymbolRefAttr ref) {
  gguf::WeightOp op = weight(ref);
  std::vector<float> values(op.getMatrixType().getColumns());
  G4_RETURN_IF_ERROR(weights_->readValues(op, 0, values));
  return values;
}

Result<Matrix> Evaluator::multiply(const Matrix &x, FlatSymbolRefAttr ref, int64_t first, int64_t rows) {
  gguf::WeightOp op = weight(ref);
  std::vector<float> row(op.getMatrixType().getColumns());
  Matrix result(x.rows, rows);
  for (int64_t r = 0; r < rows; ++r) {
    G4_RETURN_IF_ERROR(weights_->readValues(op, first + r, row));
    for (int64_t t = 0; t < x.rows; ++t)
      result.row(t)[r] = dot(x.row(t), row);
  }
  return result;
}

Status Evaluator::setRows() {
  int64_t n = static_cast<int64_t>(options_.ids.size());
  for (int32_t id : options_.ids)
    if (id < 0 || id >= static_cast<int64_t>(model_.getVocabulary()))
      return invalidArgument("token " + std::to_string(id) + " is not in the vocabulary of " +
                             std::to_string(model_.getVocabulary()));
  for (int64_t i = 0; i < n; ++i)
    positions_[0].push_back(i);
  positions_[1] = options_.tailRows.value_or(positions_[0]);
  positions_[2] = options_.logitsRows.value_or(positions_[1]);
  for (size_t set : {1, 2})
    if (!std::is_sorted(positions_[set].begin(), positions_[set].end(), std::less_equal<>()) ||
        !std::includes(positions_[set - 1].begin(), positions_[set - 1].end(), positions_[set].begin(),
                       positions_[set].end()))
      return invalidArgument(set == 1 ? "the tail rows are no rising positions of the sequence"
                                      : "the logits rows are no rising subset of the tail rows");
  return {};
}

Status Evaluator::visit(EmbedOp op) {
  const std::vector<int64_t> &rows = positions(op.getRows().getType().getSet());
  Matrix result(rows.size(), getColumns(op.getResult()));
  for (size_t t = 0; t < rows.size(); ++t) {
    G4_RETURN_IF_ERROR(weights_->readValues(weight(op.getTableAttr()), options_.ids[rows[t]], result.row(t)));
    for (float &value : result.row(t))
      value *= toFloat(op.getScale());
  }
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(SelectRowsOp op) {
  const std::vector<int64_t> &from = positions(setOf(op.getX())),
                             &to = positions(op.getRows().getType().getSet());
  const Matrix &x = get(op.getX());
  Matrix result(to.size(), x.columns);
  for (size_t t = 0; t < to.size(); ++t) {
    int64_t source = std::lower_bound(from.begin(), from.end(), to[t]) - from.begin();
    std::ranges::copy(x.row(source), result.row(t).begin());
  }
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(RmsNormOp op) {
  std::vector<float> gain;
  if (op.getGainAttr()) {
    G4_ASSIGN_OR_RETURN(gain, vector(op.getGainAttr()));
  }
  Matrix result = get(op.getX());
  for (int64_t t = 0; t < result.rows; ++t)
    rmsNorm(result.row(t), gain, op.getGroups(), toFloat(op.getEps()));
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(LinearOp op) {
  for (auto [index, output] : llvm::enumerate(op.getOutputs())) {
    gguf::PartAttr part = op.getPart(index);
    G4_ASSIGN_OR_RETURN(Matrix result,
                        multiply(get(op.getX()), part.getWeight(), part.getFirst(), part.getRows()));
    G4_RETURN_IF_ERROR(set(output, std::move(result)));
  }
  return {};
}

Status Evaluator::visit(RopeOp op) {
  RopeAttr attr = model_.getRope(op.getKind());
  std::vector<float> factors;
  if (attr.getFactors()) {
    G4_ASSIGN_OR_RETURN(factors, vector(attr.getFactors()));
  } else if (attr.getTurning()) {
    factors.assign(attr.getDim() / 2, 1e30f); // pairs that do not turn
    std::fill_n(factors.begin(), attr.getTurning(), 1.0f);
  }
  const std::vector<int64_t> &rows = positions(op.getRows().getType().getSet());
  Matrix result = get(op.getX());
  for (int64_t t = 0; t < result.rows; ++t)
    rope(result.row(t), op.getHeads(), rows[t], attr.getBaseValue(), factors);
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(KvAppendOp op) {
  KvType type = op.getKv().getType();
  kv_[op.getKv()] = std::make_shared<KeysValues>(
      KeysValues{get(op.getK()), get(op.getV()), type.getHeads(), type.getDim(), type.getWindow()});
  kvOfLayer_[*getLayer(op)] = kv_[op.getKv()];
  return {};
}

Status Evaluator::visit(KvSharedOp op) {
  int64_t layer = *getLayer(op);
  LayerKind kind = model_.getLayerFact(layer).getKind();
  for (int64_t donor = layer - 1; donor >= 0; --donor) {
    if (!kvOfLayer_.contains(donor) || model_.getLayerFact(donor).getKind() != kind)
      continue;
    kv_[op.getKv()] = kvOfLayer_[donor];
    return {};
  }
  return invalidArgument("layer " + std::to_string(layer) +
                         " shares K/V, but no layer of its kind wrote any");
}

Status Evaluator::visit(AttentionOp op) {
  const std::vector<int64_t> &rows = positions(op.getRows().getType().getSet());
  const Matrix &q = get(op.getQ());
  Matrix result(q.rows, q.columns);
  for (int64_t t = 0; t < q.rows; ++t)
    attend(q.row(t), *kv_[op.getKv()], rows[t], op.getHeads(), toFloat(op.getScale()), result.row(t));
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(GegluOp op) {
  Matrix result = get(op.getGate());
  const Matrix &up = get(op.getUp());
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] = geluTanh(result.data[i]) * up.data[i];
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(AddOp op) {
  Matrix result = get(op.getA());
  const Matrix &b = get(op.getB());
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] += b.data[i];
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(ScaleOp op) {
  G4_ASSIGN_OR_RETURN(std::vector<float> by, vector(op.getByAttr()));
  Matrix result = get(op.getX());
  for (float &value : result.data)
    value *= by[0];
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(PerLayerInputsOp op) {
  int64_t width = op.getWidth(), first = op.getFirstLayer(), count = op.getLayerCount();
  G4_ASSIGN_OR_RETURN(std::vector<float> norm, vector(op.getNormAttr()));
  G4_ASSIGN_OR_RETURN(Matrix result, multiply(get(op.getE()), op.getProjection().getWeight(),
                                              op.getProjection().getFirst(), op.getProjection().getRows()));
  gguf::WeightOp table = weight(op.getTableAttr());
  std::vector<float> entry(table.getMatrixType().getColumns());
  const std::vector<int64_t> &rows = positions(op.getRows().getType().getSet());
  for (int64_t t = 0; t < result.rows; ++t) {
    std::span<float> row = result.row(t);
    for (float &value : row)
      value *= toFloat(op.getProjectionScale());
    for (int64_t i = 0; i < count; ++i)
      rmsNorm(row.subspan(i * width, width), norm, 1, toFloat(op.getEps()));
    G4_RETURN_IF_ERROR(weights_->readValues(table, options_.ids[rows[t]], entry));
    for (int64_t c = 0; c < result.columns; ++c)
      row[c] =
          (row[c] + entry[first * width + c] * toFloat(op.getTableScale())) * toFloat(op.getCombineScale());
  }
  if (op.getTap()) {
    for (int64_t i = 0; i < count; ++i) {
      Matrix one(result.rows, width);
      for (int64_t t = 0; t < result.rows; ++t)
        std::ranges::copy(result.row(t).subspan(i * width, width), one.row(t).begin());
      tap(stringifyTapKind(*op.getTap()).str() + std::to_string(first + i), op.getResult(), std::move(one));
    }
  }
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(SliceLayerOp op) {
  const Matrix &x = get(op.getInputs());
  int64_t width = op.getWidth(), at = (*getLayer(op) - static_cast<int64_t>(op.getFirstLayer())) * width;
  Matrix result(x.rows, width);
  for (int64_t t = 0; t < x.rows; ++t)
    std::ranges::copy(x.row(t).subspan(at, width), result.row(t).begin());
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(RouteOp op) {
  int64_t used = op.getUsed();
  int64_t layer = getLayer(op).value_or(-1);
  G4_ASSIGN_OR_RETURN(std::vector<float> scale, vector(op.getScaleAttr()));
  G4_ASSIGN_OR_RETURN(std::vector<float> expertScale, vector(op.getExpertScaleAttr()));
  Matrix x = get(op.getX());
  for (int64_t t = 0; t < x.rows; ++t) {
    rmsNorm(x.row(t), {}, 1, toFloat(op.getEps()));
    for (int64_t c = 0; c < x.columns; ++c)
      x.row(t)[c] = x.row(t)[c] * scale[c] * toFloat(op.getInputScale());
  }
  G4_ASSIGN_OR_RETURN(Matrix probability, multiply(x, op.getRouterAttr(), 0, op.getExperts()));
  Matrix weights(x.rows, used);
  Choices ids;
  auto forced = options_.forcedExperts.find(layer);
  if (forced != options_.forcedExperts.end() &&
      forced->second.size() != options_.ids.size() * static_cast<size_t>(used))
    return invalidArgument("the forced experts of layer " + std::to_string(layer) + " are " +
                           std::to_string(forced->second.size()) + ", expected " +
                           std::to_string(options_.ids.size() * used));
  for (int64_t t = 0; t < x.rows; ++t) {
    softmax(probability.row(t));
    std::vector<int32_t> chosen = topK(probability.row(t), used);
    if (forced != options_.forcedExperts.end()) {
      auto from = forced->second.begin() + positions(setOf(op.getX()))[t] * used;
      chosen.assign(from, from + used);
    }
    double sum = 0;
    for (int32_t e : chosen) {
      if (e < 0 || e >= static_cast<int64_t>(op.getExperts()))
        return invalidArgument("expert " + std::to_string(e) + " is forced, but there are " +
                               std::to_string(op.getExperts()));
      sum += static_cast<double>(probability.row(t)[e]);
    }
    for (int64_t k = 0; k < used; ++k)
      weights.row(t)[k] = static_cast<float>(static_cast<double>(probability.row(t)[chosen[k]]) / sum) *
                          expertScale[chosen[k]];
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  if (op.getTap()) {
    std::string suffix = std::to_string(layer);
    tap("router_prob" + suffix, op.getX(), probability);
    tap("router_w" + suffix, op.getX(), weights);
    Matrix shape;
    shape.rows = x.rows;
    shape.columns = used;
    tap("router_idx" + suffix, op.getX(), std::move(shape), ids);
  }
  choices_[op.getIds()] = std::move(ids);
  return set(op.getWeights(), std::move(weights));
}

Status Evaluator::visit(ExpertsOp op) {
  const Matrix &x = get(op.getX()), &weights = get(op.getWeights());
  const Choices &ids = choices_[op.getIds()];
  Matrix result(x.rows, x.columns);
  for (int64_t t = 0; t < x.rows; ++t) {
    Matrix one(1, x.columns);
    std::ranges::copy(x.row(t), one.row(0).begin());
    for (int64_t k = 0; k < weights.columns; ++k) {
      auto expert = [&](const Matrix &in, gguf::PartAttr part) {
        int64_t first = ids[t * weights.columns + k] * part.getStride() + part.getFirst();
        return multiply(in, part.getWeight(), first, part.getRows());
      };
      G4_ASSIGN_OR_RETURN(Matrix inner, expert(one, op.getGate()));
      G4_ASSIGN_OR_RETURN(Matrix up, expert(one, op.getUp()));
      for (size_t i = 0; i < inner.data.size(); ++i)
        inner.data[i] = geluTanh(inner.data[i]) * up.data[i];
      G4_ASSIGN_OR_RETURN(Matrix down, expert(inner, op.getDown()));
      for (int64_t c = 0; c < x.columns; ++c)
        result.row(t)[c] += weights.row(t)[k] * down.row(0)[c];
    }
  }
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(LogitsOp op) {
  G4_ASSIGN_OR_RETURN(Matrix result,
                      multiply(get(op.getH()), op.getHeadAttr(), 0, getColumns(op.getResult())));
  float cap = toFloat(op.getSoftcap());
  if (cap != 0.0f)
    for (float &value : result.data)
      value = cap * std::tanh(value / cap);
  return set(op.getResult(), std::move(result));
}

Status Evaluator::visit(Operation *op) {
  return llvm::TypeSwitch<Operation *, Status>(op)
      .Case<EmbedOp, SelectRowsOp, RmsNormOp, LinearOp, RopeOp, KvAppendOp, KvSharedOp, AttentionOp, GegluOp,
            AddOp, ScaleOp, PerLayerInputsOp, SliceLayerOp, RouteOp, ExpertsOp, LogitsOp>(
          [&](auto known) { return visit(known); })
      .Default([](Operation *other) {
        return invalidArgument("the evaluator does not know " + other->getName().getStringRef().str());
      });
}

Result<Evaluation> Evaluator::run() {
  G4_RETURN_IF_ERROR(setRows());
  for (Operation &op : model_.getBody().front().without_terminator())
    G4_RETURN_IF_ERROR(visit(&op));
  auto result = cast<ReturnOp>(model_.getBody().front().getTerminator());
  out_.logits = get(result.getLogits());
  out_.hidden = get(result.getHidden());
  return std::move(out_);
}

} // namespace

Result<Evaluation> evaluate(ModelOp model, const EvaluateOptions &options) {
  auto module = model->getParentOfType<ModuleOp>();
  if (!module)
    return invalidArgument("the model is in no module");
  G4_ASSIGN_OR_RETURN(std::unique_ptr<weights::WeightRows> weights, weights::WeightRows::open(module));
  return Evaluator(model, options, std::move(weights)).run();
}

} // namespace g4::reference
