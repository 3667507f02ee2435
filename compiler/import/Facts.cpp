#include "compiler/import/Facts.h"

#include <cmath>

#include "runtime/base/Text.h"

using namespace mlir;

namespace g4::importer {
namespace {

// Files are untrusted; no published model comes near these. Products of two sizes, and of a size and the
// experts, stay far from overflow.
constexpr uint64_t kMaxLayers = 1024;
constexpr int64_t kMaxExperts = 1 << 16;
constexpr uint64_t kMaxSize = uint64_t(1) << 30;

/// Reads keys under `gemma4.`, with the names that older files use.
class Metadata {
public:
  explicit Metadata(const Source &source) : source_(source) {}

  std::optional<uint64_t> uint(ArrayRef<StringRef> keys) const {
    for (StringRef key : keys)
      if (auto value = source_.metadata().getUint(full(key)))
        return value;
    return std::nullopt;
  }

  std::optional<double> number(ArrayRef<StringRef> keys) const {
    for (StringRef key : keys) {
      if (auto value = source_.metadata().getFloat(full(key)))
        return value;
      if (auto value = source_.metadata().getUint(full(key)))
        return static_cast<double>(*value);
    }
    return std::nullopt;
  }

  /// A size from 1 to `max`; an error otherwise.
  std::optional<int64_t> size(StringRef key, uint64_t max) const {
    auto value = uint(key);
    if (!value) {
      source_.error() << "missing metadata " << quotedName(full(key));
      return std::nullopt;
    }
    if (*value == 0 || *value > max) {
      source_.error() << full(key) << " is " << *value << ", expected 1 to " << max;
      return std::nullopt;
    }
    return static_cast<int64_t>(*value);
  }

  /// A positive finite number; an error when it is missing or is not one.
  std::optional<double> positive(StringRef key) const {
    auto value = number(key);
    if (!value) {
      source_.error() << "missing metadata " << quotedName(full(key));
      return std::nullopt;
    }
    if (!(std::isfinite(*value) && *value > 0)) {
      source_.error() << full(key) << " is " << *value << ", expected a positive number";
      return std::nullopt;
    }
    return value;
  }

  /// A positive finite number, or `otherwise` with a warning.
  double positiveOr(ArrayRef<StringRef> keys, double otherwise) const {
    auto value = number(keys);
    if (value && std::isfinite(*value) && *value > 1)
      return *value;
    source_.warning() << full(keys.front()) << (value ? " is unusable" : " is missing") << "; using "
                      << otherwise;
    return otherwise;
  }

  /// One number per layer; a single one holds for all. Empty when absent, an error when too short.
  LogicalResult perLayer(StringRef key, int64_t layers, std::vector<uint64_t> &out) const {
    auto values = source_.metadata().getUints(full(key));
    if (!values)
      return success();
    if (values->size() == 1)
      values = std::vector<uint64_t>(layers, values->front());
    if (static_cast<int64_t>(values->size()) < layers)
      return source_.error() << full(key) << " has " << values->size() << " entries, but block_count is "
                             << layers;
    out = *std::move(values);
    return success();
  }

  std::string full(StringRef key) const { return "gemma4." + key.str(); }

private:
  const Source &source_;
};

class Reader {
public:
  explicit Reader(const Source &source) : source_(source), meta_(source) {}
  std::optional<ModelFacts> read();

private:
  LogicalResult readModel(int64_t layers);
  LogicalResult readKinds(int64_t layers);
  LogicalResult guessKinds();
  LogicalResult readAttention(int64_t index, LayerFacts &layer);
  LogicalResult readOwnKv(int64_t index, LayerFacts &layer, TensorRef fused);
  LogicalResult readMlp(int64_t index, LayerFacts &layer);
  LogicalResult readPerLayerInputs();
  LogicalResult readRope();
  LogicalResult readOutputScale();

  TensorRef require(int64_t layer, StringRef name) { return source_.require(layerName(layer, name)); }
  TensorRef find(int64_t layer, StringRef name) { return source_.find(layerName(layer, name)); }
  /// A size that `tensor` has must be one that a model can have.
  LogicalResult bound(TensorRef tensor, int64_t size, int64_t max = kMaxSize);
  /// `rows` of `tensor` as heads of `dim`; 0 after an error.
  int64_t headsOf(TensorRef tensor, int64_t rows, int64_t dim);
  /// Warns, once for each key, that the metadata says otherwise than the weights.
  void compare(StringRef key, std::optional<uint64_t> stated, int64_t found, int64_t layer = -1);

  const Source &source_;
  Metadata meta_;
  ModelFacts facts_;
  llvm::StringSet<> warned_;
  std::vector<uint64_t> statedKvHeads_, statedHeads_, statedFf_;
  bool oneKvHeads_ = false; ///< the metadata gives one number of K/V heads for layers of both kinds
};

void Reader::compare(StringRef key, std::optional<uint64_t> stated, int64_t found, int64_t layer) {
  if (!stated || *stated == static_cast<uint64_t>(found) || !warned_.insert(key).second)
    return;
  InFlightDiagnostic diag = source_.warning();
  diag << meta_.full(key) << " says " << *stated;
  if (layer >= 0)
    diag << " for layer " << layer;
  diag << ", but the weights have " << found << "; using the weights";
}

LogicalResult Reader::bound(TensorRef tensor, int64_t size, int64_t max) {
  if (size >= 1 && size <= max)
    return success();
  return source_.error(tensor) << quotedName(tensor.tensor->name) << " has a size of " << size
                               << ", expected 1 to " << max;
}

int64_t Reader::headsOf(TensorRef tensor, int64_t rows, int64_t dim) {
  if (rows > 0 && rows % dim == 0)
    return rows / dim;
  source_.error(tensor) << quotedName(tensor.tensor->name) << " has " << rows
                        << " outputs, which is no multiple of the head dimension " << dim;
  return 0;
}

LogicalResult Reader::readModel(int64_t layers) {
  TensorRef embedding = source_.require("token_embd.weight");
  if (!embedding)
    return failure();
  facts_.hidden = embedding.columns();
  facts_.vocabulary = embedding.rows();
  if (failed(bound(embedding, facts_.hidden)) || failed(bound(embedding, facts_.vocabulary)))
    return failure();
  compare("embedding_length", meta_.uint({"embedding_length"}), facts_.hidden);

  auto context = meta_.size("context_length", kMaxSize);
  auto eps = meta_.positive("attention.layer_norm_rms_epsilon");
  if (!context || !eps)
    return failure();
  facts_.contextLength = *context;
  facts_.eps = static_cast<float>(*eps);
  facts_.ropeBaseGlobal = meta_.positiveOr({"rope.freq_base"}, 1e6);
  facts_.ropeBaseSliding = meta_.positiveOr({"rope.freq_base_swa", "rope.local.freq_base"}, 1e4);
  auto softcap = meta_.number({"final_logit_softcapping"});
  if (softcap && !(std::isfinite(*softcap) && *softcap >= 0))
    return source_.error() << meta_.full("final_logit_softcapping") << " is " << *softcap
                           << ", expected a number that is not negative";
  if (!softcap)
    source_.warning() << meta_.full("final_logit_softcapping") << " is missing; the logits are not capped";
  facts_.softcap = static_cast<float>(softcap.value_or(0.0));

  if (failed(meta_.perLayer("attention.head_count", layers, statedHeads_)) ||
      failed(meta_.perLayer("attention.head_count_kv", layers, statedKvHeads_)) ||
      failed(meta_.perLayer("feed_forward_length", layers, statedFf_)))
    return failure();
  return readKinds(layers);
}

/// Without a pattern the two kinds' head dimensions tell them apart.
LogicalResult Reader::guessKinds() {
  const std::string key = meta_.full("attention.sliding_window_pattern");
  auto sliding = meta_.uint({"attention.key_length_swa"}), global = meta_.uint({"attention.key_length"});
  if (!sliding || !global || *sliding == *global)
    return source_.error() << "missing metadata " << quotedName(key);
  for (int64_t i = 0, n = static_cast<int64_t>(facts_.layers.size()); i < n; ++i) {
    TensorRef qNorm = require(i, "attn_q_norm.weight");
    if (!qNorm)
      return failure();
    uint64_t dim = qNorm.tensor->columns();
    if (dim != *sliding && dim != *global)
      return source_.error() << "missing metadata " << quotedName(key) << ", and layer " << i
                             << " has heads of " << dim << " elements, which is neither kind's";
    facts_.layers[i].sliding = dim == *sliding;
  }
  source_.warning() << key << " is missing; layers with heads of " << *sliding << " elements are sliding";
  return success();
}

/// Which layers slide and which share K/V.
LogicalResult Reader::readKinds(int64_t layers) {
  facts_.layers.resize(layers);
  const std::string key = meta_.full("attention.sliding_window_pattern");
  auto pattern = source_.metadata().getBools(key);
  auto period = source_.metadata().getUint(key);
  if (pattern && static_cast<int64_t>(pattern->size()) < layers)
    return source_.error() << key << " has " << pattern->size() << " entries, but block_count is " << layers;
  if (pattern) {
    for (int64_t i = 0; i < layers; ++i)
      facts_.layers[i].sliding = (*pattern)[i];
  } else if (period) { // every n-th layer is global
    if (*period == 0)
      return source_.error() << key << " is 0, expected a pattern or a period";
    for (int64_t i = 0; i < layers; ++i)
      facts_.layers[i].sliding = static_cast<uint64_t>(i + 1) % *period != 0;
  } else if (failed(guessKinds())) {
    return failure();
  }
  if (llvm::any_of(facts_.layers, [](const LayerFacts &layer) { return layer.sliding; })) {
    auto window = meta_.size("attention.sliding_window", kMaxSize);
    if (!window)
      return failure();
    facts_.window = *window;
  } else {
    facts_.window = facts_.contextLength;
  }

  uint64_t sharing = meta_.uint({"attention.shared_kv_layers"}).value_or(0);
  if (sharing >= static_cast<uint64_t>(layers))
    return source_.error() << meta_.full("attention.shared_kv_layers") << " is " << sharing
                           << ", expected less than block_count, which is " << layers;
  for (int64_t i = layers - static_cast<int64_t>(sharing); i < layers; ++i)
    facts_.layers[i].sharesKv = true;

  // Older files give the global layers' K/V heads under a key of their own.
  auto global = meta_.uint({"attention.global_head_count_kv"});
  for (int64_t i = 0; global && i < static_cast<int64_t>(statedKvHeads_.size()); ++i)
    if (i < layers && !facts_.layers[i].sliding)
      statedKvHeads_[i] = *global;
  oneKvHeads_ = !global && meta_.uint({"attention.head_count_kv"});
  return success();
}

LogicalResult Reader::readOwnKv(int64_t index, LayerFacts &layer, TensorRef fused) {
  std::optional<uint64_t> stated;
  if (!statedKvHeads_.empty())
    stated = statedKvHeads_[index];
  if (TensorRef k = find(index, "attn_k.weight")) {
    layer.kvHeads = headsOf(k, k.rows(), layer.headDim);
    layer.valueIsKey = !find(index, "attn_v.weight");
  } else if (fused) {
    int64_t rest = headsOf(fused, fused.rows(), layer.headDim) - layer.heads;
    // Only the metadata tells K and V apart from K alone; a global layer may have K alone.
    layer.valueIsKey = !layer.sliding && stated && static_cast<int64_t>(*stated) == rest;
    layer.kvHeads = layer.valueIsKey ? rest : rest / 2;
    if (rest <= 0 || (!layer.valueIsKey && rest % 2))
      return source_.error(fused) << quotedName(fused.tensor->name) << " has " << fused.rows()
                                  << " rows, which do not hold " << layer.heads
                                  << " query heads and K/V heads of " << layer.headDim;
  } else {
    return source_.require(layerName(index, "attn_k.weight")), failure();
  }
  if (layer.kvHeads <= 0)
    return failure();
  if (layer.valueIsKey && layer.sliding)
    return source_.require(layerName(index, "attn_v.weight")), failure();
  if (layer.heads % layer.kvHeads)
    return source_.error() << "layer " << index << " has " << layer.heads << " query heads, which "
                           << layer.kvHeads << " K/V heads do not divide";
  if (layer.sliding || !oneKvHeads_) // one number is the sliding layers'
    compare("attention.head_count_kv", stated, layer.kvHeads, index);
  return success();
}

LogicalResult Reader::readAttention(int64_t index, LayerFacts &layer) {
  TensorRef qNorm = require(index, "attn_q_norm.weight");
  if (!qNorm)
    return failure();
  TensorRef output = require(index, "attn_output.weight");
  if (!output)
    return failure();
  layer.headDim = qNorm.columns();
  if (failed(bound(qNorm, layer.headDim)))
    return failure();
  int64_t &ropeDim = layer.sliding ? facts_.ropeDimSliding : facts_.ropeDimGlobal;
  if (layer.headDim % 2)
    return source_.error(qNorm) << "the head dimension " << layer.headDim << " is odd";
  if (ropeDim != 0 && ropeDim != layer.headDim)
    return source_.error(qNorm) << "layer " << index << " has heads of " << layer.headDim
                                << " elements, but earlier layers of its kind have " << ropeDim;
  ropeDim = layer.headDim;
  StringRef key = layer.sliding ? "attention.key_length_swa" : "attention.key_length";
  compare(key, meta_.uint({key}), layer.headDim, index);

  TensorRef q = find(index, "attn_q.weight");
  TensorRef fused = find(index, "attn_qkv.weight");
  if (!q && !fused)
    return require(index, "attn_q.weight"), failure();
  layer.heads = q ? headsOf(q, q.rows(), layer.headDim) : headsOf(output, output.columns(), layer.headDim);
  if (layer.heads == 0)
    return failure();
  if (!statedHeads_.empty())
    compare("attention.head_count", statedHeads_[index], layer.heads, index);
  if (!layer.sharesKv)
    return readOwnKv(index, layer, fused);

  // The donor is the last layer of this kind with K/V of its own.
  for (int64_t i = index - 1; i >= 0; --i) {
    const LayerFacts &donor = facts_.layers[i];
    if (donor.sharesKv || donor.sliding != layer.sliding)
      continue;
    layer.kvHeads = donor.kvHeads;
    if (layer.heads % layer.kvHeads)
      return source_.error() << "layer " << index << " has " << layer.heads << " query heads, which "
                             << layer.kvHeads << " K/V heads of layer " << i << " do not divide";
    return success();
  }
  return source_.error() << "layer " << index << " shares K/V, but no "
                         << (layer.sliding ? "sliding" : "global") << " layer before it has its own";
}

LogicalResult Reader::readMlp(int64_t index, LayerFacts &layer) {
  if (TensorRef gate = find(index, "ffn_gate.weight")) {
    layer.ff = gate.rows();
  } else if (TensorRef both = find(index, "ffn_gate_up.weight")) {
    if (both.rows() % 2)
      return source_.error(both) << quotedName(both.tensor->name) << " has " << both.rows()
                                 << " rows, expected as many gate rows as up rows";
    layer.ff = both.rows() / 2;
  } else {
    return require(index, "ffn_gate.weight"), failure();
  }
  if (layer.ff < 1 || layer.ff > static_cast<int64_t>(kMaxSize))
    return source_.error() << "layer " << index << " has an MLP of width " << layer.ff;
  if (!statedFf_.empty())
    compare("feed_forward_length", statedFf_[index], layer.ff, index);

  uint64_t statedExperts = meta_.uint({"expert_count"}).value_or(0);
  TensorRef router = find(index, "ffn_gate_inp.weight");
  if (!router)
    return statedExperts ? (require(index, "ffn_gate_inp.weight"), failure()) : success();
  layer.experts = router.rows();
  TensorRef down =
      source_.find({layerName(index, "ffn_down_exps.weight"), layerName(index, "ffn_down_exps.0.weight"),
                    layerName(index, "ffn_down_exps.0")});
  if (!down)
    return require(index, "ffn_down_exps.weight"), failure();
  layer.expertFf = down.columns();
  if (failed(bound(router, layer.experts, kMaxExperts)) || failed(bound(down, layer.expertFf)))
    return failure();
  compare("expert_count", statedExperts, layer.experts, index);
  compare("expert_feed_forward_length", meta_.uint({"expert_feed_forward_length"}), layer.expertFf, index);
  if (facts_.expertsUsed)
    return success();
  auto used = meta_.size("expert_used_count", static_cast<uint64_t>(layer.experts));
  if (!used)
    return failure();
  facts_.expertsUsed = *used;
  return success();
}

LogicalResult Reader::readPerLayerInputs() {
  auto stated = meta_.uint({"embedding_length_per_layer_input"});
  TensorRef norm = source_.find("per_layer_proj_norm.weight");
  if (!norm) {
    if (!stated || *stated == 0)
      return success();
    return source_.require("per_layer_proj_norm.weight"), failure();
  }
  facts_.perLayerWidth = norm.columns();
  if (failed(bound(norm, facts_.perLayerWidth)))
    return failure();
  compare("embedding_length_per_layer_input", stated, facts_.perLayerWidth);
  return success();
}

LogicalResult Reader::readOutputScale() {
  int64_t with = 0, layers = static_cast<int64_t>(facts_.layers.size()), without = -1;
  for (int64_t i = 0; i < layers; ++i) {
    if (find(i, "layer_output_scale.weight"))
      ++with;
    else
      without = i;
  }
  if (with != 0 && without >= 0)
    return require(without, "layer_output_scale.weight"), failure();
  facts_.hasOutputScale = with != 0;
  return success();
}

/// A file without the factors says what share of a head turns.
LogicalResult Reader::readRope() {
  if (source_.find(kRopeFactors) || facts_.ropeDimGlobal == 0)
    return success();
  auto share = meta_.number({"rope.partial_rotary_factor"});
  if (!share)
    return source_.require(kRopeFactors), failure();
  facts_.ropeTurning =
      *share > 0 && *share <= 1 ? static_cast<int64_t>(*share * facts_.ropeDimGlobal / 2) : 0;
  if (facts_.ropeTurning == 0)
    return source_.error() << meta_.full("rope.partial_rotary_factor") << " is " << *share
                           << ", expected a share of a head of " << facts_.ropeDimGlobal << ", up to 1";
  return success();
}

std::optional<ModelFacts> Reader::read() {
  auto layers = meta_.size("block_count", kMaxLayers);
  if (!layers || failed(readModel(*layers)))
    return std::nullopt;
  for (int64_t i = 0; i < *layers; ++i)
    if (failed(readAttention(i, facts_.layers[i])) || failed(readMlp(i, facts_.layers[i])))
      return std::nullopt;
  if (failed(readPerLayerInputs()) || failed(readRope()) || failed(readOutputScale()))
    return std::nullopt;
  // A kind that no layer has still needs a rope in the model; it is never used.
  if (facts_.ropeDimSliding == 0)
    facts_.ropeDimSliding = facts_.ropeDimGlobal;
  if (facts_.ropeDimGlobal == 0)
    facts_.ropeDimGlobal = facts_.ropeDimSliding;
  return std::move(facts_);
}

} // namespace

std::string layerName(int64_t layer, StringRef name) {
  return "blk." + std::to_string(layer) + "." + name.str();
}

std::optional<ModelFacts> readFacts(const Source &source) { return Reader(source).read(); }

} // namespace g4::importer
