/// Tiny Gemma 4 models as GGUF files whose tensors and metadata a test can change, and the import of one.
#pragma once

#include "compiler/import/Importer.h"
#include "compiler/import/gguf/Gguf.h"
#include "dialects/gemma/GemmaDialect.h"
#include "test/support/GgufBuilder.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace g4::importer {

using B = test::GgufBuilder;

/// Layers: sliding, global, sliding, global. All weights 0 in f32.
struct TestModel {
  static constexpr uint64_t kHidden = 32, kVocabulary = 16, kLayers = 4, kHeads = 2, kFf = 64,
                            kSlidingDim = 8, kGlobalDim = 16;

  struct Stored {
    std::vector<uint64_t> dims;
    uint32_t type = 0;
  };
  struct Entry {
    uint32_t type;
    std::string value;
  };
  std::map<std::string, Stored> tensors;
  std::map<std::string, Entry> metadata; ///< by key, without "gemma4." only for general.*

  static std::string layer(int i, const std::string &name) { return "blk." + std::to_string(i) + "." + name; }
  static bool isGlobal(int i) { return i % 2 == 1; }
  static uint64_t dim(int i) { return isGlobal(i) ? kGlobalDim : kSlidingDim; }

  void setUint(const std::string &key, uint32_t value) { metadata[key] = {B::kU32, test::bytesOf(value)}; }
  void setFloat(const std::string &key, float value) { metadata[key] = {B::kF32, test::bytesOf(value)}; }
  void setString(const std::string &key, const std::string &value) {
    metadata[key] = {B::kString, test::ggufString(value)};
  }
  void setUints(const std::string &key, const std::vector<uint32_t> &values) {
    std::string bytes = test::bytesOf<uint32_t>(B::kU32) + test::bytesOf<uint64_t>(values.size());
    for (uint32_t value : values)
      bytes += test::bytesOf(value);
    metadata[key] = {B::kArray, bytes};
  }
  void setBools(const std::string &key, const std::vector<bool> &values) {
    std::string bytes = test::bytesOf<uint32_t>(B::kBool) + test::bytesOf<uint64_t>(values.size());
    for (bool value : values)
      bytes += value ? '\1' : '\0';
    metadata[key] = {B::kArray, bytes};
  }
  void rename(const std::string &from, const std::string &to) {
    auto node = tensors.extract(from);
    ASSERT_TRUE(node) << from;
    node.key() = to;
    tensors.insert(std::move(node));
  }

  /// One K/V head in sliding layers, two in global ones.
  static TestModel dense() {
    TestModel m;
    m.setString("general.architecture", "gemma4");
    m.setUint("gemma4.block_count", kLayers);
    m.setUint("gemma4.context_length", 4096);
    m.setUint("gemma4.embedding_length", kHidden);
    m.setUint("gemma4.feed_forward_length", kFf);
    m.setUint("gemma4.attention.head_count", kHeads);
    m.setUints("gemma4.attention.head_count_kv", {1, 2, 1, 2});
    m.setUint("gemma4.attention.key_length", kGlobalDim);
    m.setUint("gemma4.attention.key_length_swa", kSlidingDim);
    m.setFloat("gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
    m.setUint("gemma4.attention.sliding_window", 4);
    m.setBools("gemma4.attention.sliding_window_pattern", {true, false, true, false});
    m.setFloat("gemma4.rope.freq_base", 1e6f);
    m.setFloat("gemma4.rope.freq_base_swa", 1e4f);
    m.setFloat("gemma4.final_logit_softcapping", 30);
    m.tensors["token_embd.weight"] = {{kHidden, kVocabulary}};
    m.tensors["output_norm.weight"] = {{kHidden}};
    m.tensors["rope_freqs.weight"] = {{kGlobalDim / 2}};
    for (int i = 0; i < int(kLayers); ++i) {
      uint64_t kv = (isGlobal(i) ? 2 : 1) * dim(i);
      for (const char *norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"})
        m.tensors[layer(i, std::string(norm) + ".weight")] = {{kHidden}};
      m.tensors[layer(i, "attn_q_norm.weight")] = {{dim(i)}};
      m.tensors[layer(i, "attn_k_norm.weight")] = {{dim(i)}};
      m.tensors[layer(i, "attn_q.weight")] = {{kHidden, kHeads * dim(i)}};
      m.tensors[layer(i, "attn_k.weight")] = {{kHidden, kv}};
      m.tensors[layer(i, "attn_v.weight")] = {{kHidden, kv}};
      m.tensors[layer(i, "attn_output.weight")] = {{kHeads * dim(i), kHidden}};
      m.tensors[layer(i, "ffn_gate.weight")] = {{kHidden, kFf}};
      m.tensors[layer(i, "ffn_up.weight")] = {{kHidden, kFf}};
      m.tensors[layer(i, "ffn_down.weight")] = {{kFf, kHidden}};
      m.tensors[layer(i, "layer_output_scale.weight")] = {{1}};
    }
    return m;
  }

  /// `dense` with per-layer inputs of width 8; the last two layers share K/V and have none stored.
  static TestModel sharing() {
    TestModel m = dense();
    m.setUint("gemma4.attention.shared_kv_layers", 2);
    m.setUint("gemma4.embedding_length_per_layer_input", 8);
    m.tensors["per_layer_token_embd.weight"] = {{8 * kLayers, kVocabulary}};
    m.tensors["per_layer_model_proj.weight"] = {{kHidden, 8 * kLayers}};
    m.tensors["per_layer_proj_norm.weight"] = {{8}};
    for (int i = 0; i < int(kLayers); ++i) {
      m.tensors[layer(i, "inp_gate.weight")] = {{kHidden, 8}};
      m.tensors[layer(i, "proj.weight")] = {{8, kHidden}};
      m.tensors[layer(i, "post_norm.weight")] = {{kHidden}};
      if (i >= 2)
        for (const char *kv : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
          m.tensors.erase(layer(i, kv));
    }
    return m;
  }

  /// `dense` with 4 experts of width 8, two used; global layers have V from K.
  static TestModel experts() {
    TestModel m = dense();
    m.setUint("gemma4.expert_count", 4);
    m.setUint("gemma4.expert_used_count", 2);
    m.setUint("gemma4.expert_feed_forward_length", 8);
    for (int i = 0; i < int(kLayers); ++i) {
      for (const char *norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
        m.tensors[layer(i, std::string(norm) + ".weight")] = {{kHidden}};
      m.tensors[layer(i, "ffn_gate_inp.weight")] = {{kHidden, 4}};
      m.tensors[layer(i, "ffn_gate_inp.scale")] = {{kHidden}};
      m.tensors[layer(i, "ffn_gate_up_exps.weight")] = {{kHidden, 16, 4}};
      m.tensors[layer(i, "ffn_down_exps.weight")] = {{8, kHidden, 4}};
      m.tensors[layer(i, "ffn_down_exps.scale")] = {{4}};
      if (isGlobal(i))
        m.tensors.erase(layer(i, "attn_v.weight"));
    }
    return m;
  }

  /// The file's bytes, with or without its tensor data.
  std::string bytes(bool data = true) const {
    B b;
    for (const auto &[key, entry] : metadata)
      b.add(key, entry.type, entry.value);
    uint64_t offset = 0;
    for (const auto &[name, stored] : tensors) {
      uint64_t elements = 1;
      for (uint64_t size : stored.dims)
        elements *= size;
      const gguf::TypeInfo *info = gguf::typeInfo(stored.type);
      uint64_t bytes = info ? elements / info->blockElements * info->blockBytes : 0;
      b.tensors.push_back({name, stored.dims, stored.type, offset, {}});
      offset = (offset + bytes + b.alignment - 1) / b.alignment * b.alignment;
    }
    if (data)
      b.data.resize(offset);
    return data ? b.build() : b.header();
  }
};

/// A module and everything that was said on the way.
struct Imported {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> errors, warnings, remarks;
  std::vector<mlir::Location> errorLocations;

  explicit Imported(const TestModel &model, ImportOptions options = {}, bool data = true)
      : Imported(std::vector{model.bytes(data)}, options) {}

  explicit Imported(const std::vector<std::string> &files, ImportOptions options = {}) {
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
        errors.push_back(diagnostic.str());
        errorLocations.push_back(diagnostic.getLocation());
      } else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning) {
        warnings.push_back(diagnostic.str());
      } else {
        remarks.push_back(diagnostic.str());
      }
      return mlir::success();
    });
    std::vector<std::string> paths;
    for (const std::string &bytes : files) {
      const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
      paths.push_back(testing::TempDir() + test->test_suite_name() + "." + test->name() +
                      std::to_string(paths.size()) + ".gguf");
      std::ofstream(paths.back(), std::ios::binary) << bytes;
    }
    module = importGguf(context, paths, options);
    for (const std::string &path : paths)
      std::remove(path.c_str());
  }

  gemma::ModelOp model() { return *module->getOps<gemma::ModelOp>().begin(); }
  gguf::WeightOp weight(llvm::StringRef name) { return module->lookupSymbol<gguf::WeightOp>(name); }
  /// The ops of one kind in one layer.
  template <class Op> std::vector<Op> ops(int64_t layer) {
    std::vector<Op> found;
    for (Op op : model().getBody().getOps<Op>())
      if (gemma::getLayer(op) == layer)
        found.push_back(op);
    return found;
  }
  std::string all() const {
    std::string text;
    for (auto *list : {&errors, &warnings, &remarks})
      for (const std::string &line : *list)
        text += line + "\n";
    return text;
  }
};

/// The part of the layer's linear that reads `weight` (the n-th such one), or null.
inline gguf::PartAttr findPart(Imported &imported, int64_t layer, llvm::StringRef weight, int n = 0) {
  for (gemma::LinearOp op : imported.ops<gemma::LinearOp>(layer))
    if (op.getPart(0).getWeight().getValue() == weight && n-- == 0)
      return op.getPart(0);
  return {};
}

} // namespace g4::importer
