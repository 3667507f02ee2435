#include "compiler/import/LayerBuilder.h"

#include <cmath>

using namespace mlir;
using namespace g4::gemma;

namespace g4::importer {
namespace {

/// A projection's rows in its tensor, and where they came from.
struct Rows {
  Weight weight;
  int64_t first;
};

class LayerBuilder {
public:
  LayerBuilder(OpBuilder &builder, const Source &source, const ModelFacts &facts, Weights &weights,
               Block &block)
      : b_(builder), source_(source), facts_(facts), weights_(weights), rows_(block.getArgument(0)),
        tail_(block.getArgument(1)), logits_(block.getArgument(2)) {}

  LogicalResult build();

private:
  void setLayer(int64_t index) {
    index_ = index;
    layer_ = &facts_.layers[index];
  }
  std::string name(StringRef suffix) const { return layerName(index_, suffix); }
  LayerKind kind() const { return layer_->sliding ? LayerKind::kSliding : LayerKind::kGlobal; }
  FloatAttr f32(double value) { return b_.getF32FloatAttr(static_cast<float>(value)); }
  IntegerAttr layerAttr() {
    return layer_ ? b_.getI32IntegerAttr(static_cast<int32_t>(index_)) : IntegerAttr();
  }
  TapKindAttr tap(TapKind kind) { return TapKindAttr::get(b_.getContext(), kind); }
  Type wide(int64_t columns) { return getActivationType(b_.getContext(), columns); }

  // One op each. A weight that failed to load leaves the value as it is: the import fails in the end.
  Value norm(Value x, Weight gain, int64_t groups, TapKindAttr tap = {});
  Value normWithoutGain(Location loc, Value x, int64_t groups);
  Value linear(Value x, Rows rows, int64_t columns, TapKindAttr tap = {});
  Value rope(Location loc, Value x, int64_t heads);
  Value add(Location loc, Value a, Value b);

  Weight gain(const std::string &name) { return weights_.vector(name, facts_.hidden); }
  Rows plain(const std::string &tensor, int64_t rows, int64_t columns) {
    return {weights_.matrix(tensor, rows, columns), 0};
  }
  gguf::PartAttr part(Weight weight, int64_t first, int64_t rows, int64_t stride) {
    return gguf::PartAttr::get(b_.getContext(), weight.symbol, first, rows, stride);
  }

  Value kv(Value x);
  Value attention(Value h);
  Value denseMlp(Value h);
  Value experts(Value a);
  Value mlp(Value h);
  Value perLayerInputs();
  Value addPerLayerInput(Value h, Value inputs);
  void ignoreUnusedKv();

  OpBuilder &b_;
  const Source &source_;
  const ModelFacts &facts_;
  Weights &weights_;
  Value rows_, tail_, logits_;
  Value embedding_;
  const LayerFacts *layer_ = nullptr;
  int64_t index_ = 0;
};

Value LayerBuilder::norm(Value x, Weight gain, int64_t groups, TapKindAttr tap) {
  return RmsNormOp::create(b_, gain.loc(), x.getType(), x, gain.symbol, b_.getI64IntegerAttr(groups),
                           b_.getF32FloatAttr(facts_.eps), layerAttr(), tap);
}

Value LayerBuilder::normWithoutGain(Location loc, Value x, int64_t groups) {
  return RmsNormOp::create(b_, loc, x.getType(), x, FlatSymbolRefAttr(), b_.getI64IntegerAttr(groups),
                           b_.getF32FloatAttr(facts_.eps), layerAttr(), TapKindAttr());
}

Value LayerBuilder::linear(Value x, Rows rows, int64_t columns, TapKindAttr tap) {
  if (!rows.weight.symbol)
    return UnrealizedConversionCastOp::create(b_, rows.weight.loc(), wide(columns), x).getResult(0);
  Attribute attr = part(rows.weight, rows.first, columns, 0);
  return LinearOp::create(b_, rows.weight.loc(), TypeRange(wide(columns)), x, b_.getArrayAttr(attr),
                          layerAttr(), tap)
      .getOutputs()[0];
}

Value LayerBuilder::rope(Location loc, Value x, int64_t heads) {
  return RopeOp::create(b_, loc, x.getType(), x, rows_, LayerKindAttr::get(b_.getContext(), kind()),
                        b_.getI64IntegerAttr(heads), layerAttr(), TapKindAttr());
}

Value LayerBuilder::add(Location loc, Value a, Value b) {
  return AddOp::create(b_, loc, a.getType(), a, b, layerAttr(), TapKindAttr());
}

/// The layer's K/V from the normed stream `x`.
Value LayerBuilder::kv(Value x) {
  int64_t dim = layer_->headDim, kvHeads = layer_->kvHeads, columns = kvHeads * dim;
  auto type = KvType::get(b_.getContext(), kvHeads, dim, layer_->sliding ? facts_.window : 0);
  if (layer_->sharesKv)
    return KvSharedOp::create(b_, source_.loc(source_.find(name("attn_q_norm.weight"))), type, layerAttr(),
                              TapKindAttr());
  int64_t queries = layer_->heads * dim;
  int64_t all = queries + columns * (layer_->valueIsKey ? 1 : 2);
  auto projection = [&](StringRef own, int64_t first) -> Rows {
    if (source_.find(name(own)))
      return plain(name(own), columns, facts_.hidden);
    return {weights_.matrix(name("attn_qkv.weight"), all, facts_.hidden), first};
  };
  Rows keyRows = projection("attn_k.weight", queries);
  Value key = linear(x, keyRows, columns);
  Rows valueRows = layer_->valueIsKey ? keyRows : projection("attn_v.weight", queries + columns);
  Value value = layer_->valueIsKey ? key : linear(x, valueRows, columns);
  Weight keyNorm = weights_.vector(name("attn_k_norm.weight"), dim);
  key = rope(keyNorm.loc(), norm(key, keyNorm, kvHeads), kvHeads);
  value = normWithoutGain(valueRows.weight.loc(), value, kvHeads);
  return KvAppendOp::create(b_, keyRows.weight.loc(), type, key, value, rows_, layerAttr(), TapKindAttr());
}

/// Old files carry K/V weights of sharing layers that nothing reads.
void LayerBuilder::ignoreUnusedKv() {
  for (StringRef unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
    weights_.ignore(name(unused));
}

Value LayerBuilder::attention(Value h) {
  int64_t dim = layer_->headDim, queries = layer_->heads * dim;
  Value x = norm(h, gain(name("attn_norm.weight")), 1);
  Rows queryRows;
  if (source_.find(name("attn_q.weight"))) {
    queryRows = plain(name("attn_q.weight"), queries, facts_.hidden);
  } else {
    // On a sharing layer only the first rows are used; the rest is as long as it is.
    TensorRef fused = source_.find(name("attn_qkv.weight"));
    int64_t all = layer_->sharesKv ? std::max(fused.rows(), queries)
                                   : queries + layer_->kvHeads * dim * (layer_->valueIsKey ? 1 : 2);
    queryRows = {weights_.matrix(name("attn_qkv.weight"), all, facts_.hidden), 0};
  }
  Value query = linear(x, queryRows, queries);
  Weight queryNorm = weights_.vector(name("attn_q_norm.weight"), dim);
  query = rope(queryNorm.loc(), norm(query, queryNorm, layer_->heads), layer_->heads);
  Value keysAndValues = kv(x);
  if (layer_->sharesKv)
    ignoreUnusedKv();
  Value attended =
      AttentionOp::create(b_, queryRows.weight.loc(), query.getType(), query, keysAndValues, rows_,
                          b_.getI64IntegerAttr(layer_->heads), f32(1.0), layerAttr(), TapKindAttr());
  Rows output = plain(name("attn_output.weight"), facts_.hidden, queries);
  Value o = linear(attended, output, facts_.hidden, tap(TapKind::kAttention));
  Weight post = gain(name("post_attention_norm.weight"));
  return add(post.loc(), h, norm(o, post, 1));
}

Value LayerBuilder::denseMlp(Value h) {
  int64_t ff = layer_->ff;
  Value x = norm(h, gain(name("ffn_norm.weight")), 1);
  Rows gate, up;
  if (source_.find(name("ffn_gate.weight"))) {
    gate = plain(name("ffn_gate.weight"), ff, facts_.hidden);
    up = plain(name("ffn_up.weight"), ff, facts_.hidden);
  } else {
    Weight both = weights_.matrix(name("ffn_gate_up.weight"), 2 * ff, facts_.hidden);
    gate = {both, 0};
    up = {both, ff};
  }
  Value gated = linear(x, gate, ff);
  Value upped = linear(x, up, ff);
  Value product =
      GegluOp::create(b_, up.weight.loc(), gated.getType(), gated, upped, layerAttr(), TapKindAttr());
  return linear(product, plain(name("ffn_down.weight"), facts_.hidden, ff), facts_.hidden,
                tap(TapKind::kMlp));
}

Value LayerBuilder::experts(Value a) {
  int64_t hidden = facts_.hidden, count = layer_->experts, ff = layer_->expertFf, used = facts_.expertsUsed;
  Weight router = weights_.matrix(name("ffn_gate_inp.weight"), count, hidden, Weights::Scale::kElsewhere);
  Weight scale = weights_.vector(name("ffn_gate_inp.scale"), hidden);
  Weight expertScale = weights_.vector(name("ffn_down_exps.scale"), count);
  Value x = norm(a, gain(name("pre_ffw_norm_2.weight")), 1);
  Weight gate, up;
  // Where neither form is there, the error names the fused one.
  bool fused = weights_.hasStack(name("ffn_gate_up_exps")) || !weights_.hasStack(name("ffn_gate_exps"));
  if (fused) {
    gate = up = weights_.stack(name("ffn_gate_up_exps"), count, 2 * ff, hidden);
  } else {
    gate = weights_.stack(name("ffn_gate_exps"), count, ff, hidden);
    up = weights_.stack(name("ffn_up_exps"), count, ff, hidden);
  }
  // The scale of the down projections is already among the router's weights.
  Weight down = weights_.stack(name("ffn_down_exps"), count, hidden, ff, Weights::Scale::kElsewhere);
  if (weights_.failed())
    return a;
  int64_t stride = fused ? 2 * ff : ff;
  auto idsType = RankedTensorType::get({ShapedType::kDynamic, used}, b_.getI32Type());
  auto route = RouteOp::create(b_, router.loc(), idsType, wide(used), a, router.symbol, scale.symbol,
                               expertScale.symbol, b_.getI64IntegerAttr(count), b_.getI64IntegerAttr(used),
                               f32(1.0 / std::sqrt(static_cast<double>(hidden))),
                               b_.getF32FloatAttr(facts_.eps), layerAttr(), tap(TapKind::kRouter));
  return ExpertsOp::create(b_, gate.loc(), wide(hidden), x, route.getIds(), route.getWeights(),
                           part(gate, 0, ff, stride), part(up, fused ? ff : 0, ff, stride),
                           part(down, 0, hidden, hidden), b_.getI64IntegerAttr(count), layerAttr(),
                           TapKindAttr());
}

Value LayerBuilder::mlp(Value h) {
  Value m = denseMlp(h);
  if (layer_->experts) {
    m = norm(m, gain(name("post_ffw_norm_1.weight")), 1);
    Value e = experts(h);
    Weight post = gain(name("post_ffw_norm_2.weight"));
    m = add(post.loc(), m, norm(e, post, 1));
  }
  Weight post = gain(name("post_ffw_norm.weight"));
  return add(post.loc(), h, norm(m, post, 1));
}

/// This layer's inputs; null when the model has none.
Value LayerBuilder::perLayerInputs() {
  int64_t width = facts_.perLayerWidth, layers = static_cast<int64_t>(facts_.layers.size());
  if (width == 0)
    return {};
  Weight table = weights_.matrix("per_layer_token_embd.weight", facts_.vocabulary, layers * width);
  Weight projection = weights_.matrix("per_layer_model_proj.weight", layers * width, facts_.hidden);
  Weight norm = weights_.vector("per_layer_proj_norm.weight", width);
  if (weights_.failed())
    return {};
  return PerLayerInputsOp::create(
      b_, table.loc(), wide(width), embedding_, rows_, table.symbol,
      part(projection, index_ * width, width, 0), norm.symbol, b_.getI64IntegerAttr(index_),
      b_.getI64IntegerAttr(1), b_.getI64IntegerAttr(width),
      f32(1.0 / std::sqrt(static_cast<double>(facts_.hidden))), f32(std::sqrt(static_cast<double>(width))),
      f32(1.0 / std::sqrt(2.0)), b_.getF32FloatAttr(facts_.eps), layerAttr(), tap(TapKind::kPerLayerInputs));
}

Value LayerBuilder::addPerLayerInput(Value h, Value inputs) {
  Rows gate = plain(name("inp_gate.weight"), facts_.perLayerWidth, facts_.hidden);
  Value gated = linear(h, gate, facts_.perLayerWidth);
  Value product =
      GegluOp::create(b_, gate.weight.loc(), gated.getType(), gated, inputs, layerAttr(), TapKindAttr());
  Value projected =
      linear(product, plain(name("proj.weight"), facts_.hidden, facts_.perLayerWidth), facts_.hidden);
  Weight post = gain(name("post_norm.weight"));
  return add(post.loc(), h, norm(projected, post, 1));
}

LogicalResult LayerBuilder::build() {
  Weight table = weights_.matrix("token_embd.weight", facts_.vocabulary, facts_.hidden);
  if (weights_.failed())
    return failure();
  embedding_ = EmbedOp::create(b_, table.loc(), wide(facts_.hidden), rows_, table.symbol,
                               f32(std::sqrt(static_cast<double>(facts_.hidden))), IntegerAttr(),
                               tap(TapKind::kEmbed));
  Value h = embedding_;
  for (int64_t i = 0, n = static_cast<int64_t>(facts_.layers.size()); i < n; ++i) {
    setLayer(i);
    Value inputs = perLayerInputs();
    h = mlp(attention(h));
    if (weights_.failed())
      return failure();
    if (inputs)
      h = addPerLayerInput(h, inputs);
    if (facts_.hasOutputScale) {
      Weight scale = weights_.vector(name("layer_output_scale.weight"), 1);
      if (weights_.failed())
        return failure();
      h = ScaleOp::create(b_, scale.loc(), h.getType(), h, scale.symbol, layerAttr(), TapKindAttr());
    }
    h.getDefiningOp()->setAttr("tap", tap(TapKind::kLayer));
  }
  layer_ = nullptr;
  Weight outputNorm = gain("output_norm.weight");
  Weight head = source_.find("output.weight")
                    ? weights_.matrix("output.weight", facts_.vocabulary, facts_.hidden)
                    : table;
  if (weights_.failed())
    return failure();
  auto select = [&](Value x, Value rows) -> Value {
    return SelectRowsOp::create(b_, outputNorm.loc(), x.getType(), x, rows, IntegerAttr(), TapKindAttr());
  };
  Value hidden = norm(select(h, tail_), outputNorm, 1, tap(TapKind::kNorm));
  Value logits =
      LogitsOp::create(b_, head.loc(), wide(facts_.vocabulary), select(hidden, logits_), head.symbol,
                       b_.getF32FloatAttr(facts_.softcap), IntegerAttr(), TapKindAttr());
  ReturnOp::create(b_, outputNorm.loc(), logits, hidden);
  return success();
}

} // namespace

LogicalResult buildBody(OpBuilder &builder, const Source &source, const ModelFacts &facts, Weights &weights,
                        Block &block) {
  return LayerBuilder(builder, source, facts, weights, block).build();
}

} // namespace g4::importer
