// Files that are well-formed GGUF and no model that can be compiled: one error that says what is wrong.
#include "test/unit/import/TestModel.h"

#include <cmath>
#include <functional>
#include <random>

using namespace mlir;

namespace g4::importer {
namespace {

/// The one error of importing `model`; empty, with a failure, when there is not exactly one.
std::string errorOf(const TestModel &model) {
  Imported imported(model);
  EXPECT_FALSE(imported.module);
  EXPECT_EQ(imported.errors.size(), 1u) << imported.all();
  return imported.errors.empty() ? "" : imported.errors[0];
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(MalformedModelTest, AnotherArchitectureIsOneClearError) {
  TestModel model = TestModel::dense();
  model.setString("general.architecture", "llama\n\x1b[31m");
  EXPECT_SAYS(errorOf(model),
              "another kind of model (general.architecture is 'llama\\x0a\\x1b[31m'); g4 compiles Gemma 4");
  for (const char *older : {"gemma", "gemma2", "gemma3", "gemma3n", "gemma-embedding"}) {
    model.setString("general.architecture", older);
    EXPECT_SAYS(errorOf(model),
                std::string("an older Gemma model (general.architecture is '") + older + "')");
  }
  model.setString("general.architecture", "gemma4_mtp");
  EXPECT_SAYS(errorOf(model), "but another kind of Gemma model (general.architecture is 'gemma4_mtp')");
  model.setString("general.type", "mmproj");
  model.setString("general.architecture", "clip");
  EXPECT_SAYS(errorOf(model), "the image and audio encoders of a model");
  model.metadata.erase("general.architecture");
  EXPECT_SAYS(errorOf(model), "has no general.architecture");
  for (const char *draft : {"gemma4-assistant", "gemma4_assistant"}) {
    model.setString("general.architecture", draft);
    EXPECT_SAYS(errorOf(model), "draft model");
  }
}

TEST(MalformedModelTest, AFileThatIsNoModelSaysWhatItIs) {
  for (const char *type : {"adapter", "imatrix"}) {
    TestModel model = TestModel::dense();
    model.setString("general.type", type);
    EXPECT_SAYS(errorOf(model), std::string("not a model: general.type is '") + type + "'");
  }
  TestModel model = TestModel::dense();
  model.setString("general.type", "model");
  EXPECT_TRUE(Imported(model).module);
}

TEST(MalformedModelTest, AFileThatDoesNotExistIsNamed) {
  MLIRContext context;
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
  EXPECT_FALSE(importGguf(context, std::string("no/such.gguf"), {}));
  EXPECT_SAYS(said, "no/such.gguf");
  said.clear();
  EXPECT_FALSE(importGguf(context, {}, {}));
  EXPECT_SAYS(said, "no GGUF file given");
}

TEST(MalformedModelTest, EveryTensorIsNeededAndNamedWhenMissing) {
  size_t tried = 0;
  for (const TestModel &whole : {TestModel::dense(), TestModel::sharing(), TestModel::experts()}) {
    for (const auto &[name, stored] : whole.tensors) {
      TestModel model = whole;
      model.tensors.erase(name);
      // Without it a global layer takes V from K: another model, but a model.
      if (name.ends_with("attn_v.weight") && (name.starts_with("blk.1.") || name.starts_with("blk.3.")))
        continue;
      ++tried;
      EXPECT_SAYS(errorOf(model), "missing tensor '" + name + "'");
    }
  }
  EXPECT_GT(tried, 150u);
}

TEST(MalformedModelTest, EveryTensorOfAnotherShapeIsNamed) {
  for (const TestModel &whole : {TestModel::dense(), TestModel::sharing(), TestModel::experts()}) {
    for (const auto &[name, stored] : whole.tensors) {
      for (size_t d = 0; d < stored.dims.size(); ++d) {
        if (name == "token_embd.weight" && d == 1 && !whole.tensors.contains("per_layer_token_embd.weight"))
          continue; // the vocabulary is as long as it is
        TestModel model = whole;
        model.tensors[name].dims[d] += 3;
        Imported imported(model);
        EXPECT_FALSE(imported.module) << name << " dimension " << d;
        EXPECT_EQ(imported.errors.size(), 1u) << name << ": " << imported.all();
      }
    }
  }
}

TEST(MalformedModelTest, ATypeThatIsNotSupportedIsNamedWithTheSupportedOnes) {
  struct Case {
    uint32_t type;
    uint64_t columns;
    const char *name;
  };
  for (Case c : {Case{26, 32, "type 26 (i32)"},
                 {28, 32, "type 28 (f64)"},
                 {9, 32, "type 9 (unknown)"}, // q8_1, which no file holds
                 {999, 32, "type 999 (unknown)"}}) {
    TestModel model = TestModel::dense();
    model.tensors["blk.2.ffn_down.weight"] = {{c.columns, 32}, c.type};
    model.tensors["blk.2.ffn_gate.weight"] = model.tensors["blk.2.ffn_up.weight"] = {{32, c.columns}};
    Imported imported(model);
    EXPECT_FALSE(imported.module);
    ASSERT_EQ(imported.errors.size(), 1u) << imported.all();
    EXPECT_SAYS(imported.errors[0], std::string("'blk.2.ffn_down.weight' has ") + c.name +
                                        ", which holds no weights that g4 knows; supported: f32, f16, q4_0");
    EXPECT_SAYS(imported.errors[0], ", bf16, tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0");
    EXPECT_EQ(imported.errors[0].find('\n'), std::string::npos);
    auto name = imported.errorLocations[0]->findInstanceOf<NameLoc>();
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), "blk.2.ffn_down.weight");
  }
}

TEST(MalformedModelTest, AQuantisedNormIsRefused) {
  TestModel model = TestModel::dense();
  model.tensors["blk.0.attn_norm.weight"].type = 8;
  EXPECT_SAYS(errorOf(model), "'blk.0.attn_norm.weight' is q8_0, expected f32, f16 or bf16");
}

TEST(MalformedModelTest, AScaleOrBiasOfAUsedWeightIsNotPassedOver) {
  for (const char *name : {"token_embd.scale", "blk.3.attn_output.bias"}) {
    TestModel model = TestModel::dense();
    model.tensors[name] = {{1}};
    EXPECT_SAYS(errorOf(model), std::string("'") + name + "' goes with a weight of the model");
  }
}

TEST(MalformedModelTest, AMissingScaleIsNamed) {
  TestModel model = TestModel::dense();
  model.tensors["blk.0.ffn_down.weight"].type = model.tensors["blk.1.ffn_down.weight"].type = 40; // nvfp4
  model.tensors["blk.1.ffn_down.scale"] = {{1}};
  EXPECT_SAYS(errorOf(model), "missing tensor 'blk.0.ffn_down.scale', the scale of 'blk.0.ffn_down.weight'");
  model.tensors["blk.0.ffn_down.scale"] = {{2}};
  EXPECT_SAYS(errorOf(model), "'blk.0.ffn_down.scale' is 1 x 2, expected 1 x 1");
  model.tensors["blk.0.ffn_down.scale"] = {{1}, /*f16*/ 1};
  EXPECT_SAYS(errorOf(model), "'blk.0.ffn_down.scale' is no f32");
}

TEST(MalformedModelTest, ATensorInTwoFilesIsRefused) {
  TestModel first = TestModel::dense(), second;
  second.tensors["output_norm.weight"] = {{32}};
  Imported imported({first.bytes(), second.bytes()});
  EXPECT_FALSE(imported.module);
  ASSERT_EQ(imported.errors.size(), 1u) << imported.all();
  EXPECT_SAYS(imported.errors[0], "'output_norm.weight' is in '");
  EXPECT_SAYS(imported.errors[0], "' too: these are two models, not parts of one");
}

TEST(MalformedModelTest, ExpertsOfUnlikeTypesAreRefused) {
  TestModel model = TestModel::experts();
  model.tensors.erase("blk.0.ffn_gate_up_exps.weight");
  for (int e = 0; e < 4; ++e)
    model.tensors["blk.0.ffn_gate_up_exps." + std::to_string(e) + ".weight"] = {{32, 16}, e == 2 ? 8u : 0u};
  EXPECT_SAYS(errorOf(model), "'blk.0.ffn_gate_up_exps.2.weight' has another type than the first expert");
  model.tensors.erase("blk.0.ffn_gate_up_exps.2.weight");
  EXPECT_SAYS(errorOf(model), "missing tensor 'blk.0.ffn_gate_up_exps.weight', expert 2");
}

TEST(MalformedModelTest, SlidingLayersNeedTheirOwnV) {
  TestModel model = TestModel::dense();
  model.tensors.erase("blk.2.attn_v.weight");
  EXPECT_SAYS(errorOf(model), "missing tensor 'blk.2.attn_v.weight'");
}

TEST(MalformedModelTest, ASharingLayerNeedsADonorOfItsKind) {
  TestModel model = TestModel::sharing();
  model.setUint("gemma4.attention.shared_kv_layers", 3); // layer 1, global, has none before it
  EXPECT_SAYS(errorOf(model), "layer 1 shares K/V, but no global layer before it has its own");
}

struct BadMetadata {
  const char *name;
  std::function<void(TestModel &)> change;
  const char *says;
};

TEST(MalformedModelTest, MetadataThatCannotBeIsNamed) {
  auto erase = [](const char *key) {
    return [key](TestModel &m) { m.metadata.erase(std::string("gemma4.") + key); };
  };
  auto set = [](const char *key, uint32_t value) {
    return [key, value](TestModel &m) { m.setUint(std::string("gemma4.") + key, value); };
  };
  auto setFloat = [](const char *key, float value) {
    return [key, value](TestModel &m) { m.setFloat(std::string("gemma4.") + key, value); };
  };
  const BadMetadata cases[] = {
      {"NoBlockCount", erase("block_count"), "missing metadata 'gemma4.block_count'"},
      {"BlockCount0", set("block_count", 0), "gemma4.block_count is 0, expected 1 to 1024"},
      {"BlockCountHuge", set("block_count", 0xffffffff),
       "gemma4.block_count is 4294967295, expected 1 to 1024"},
      {"BlockCountText", [](TestModel &m) { m.setString("gemma4.block_count", "4"); },
       "missing metadata 'gemma4.block_count'"},
      {"MoreBlocksThanTensors",
       [](TestModel &m) {
         m.setUint("gemma4.block_count", 5);
         m.setUint("gemma4.attention.head_count_kv", 1);
         m.setUint("gemma4.attention.sliding_window_pattern", 2);
       },
       "missing tensor 'blk.4.attn_q_norm.weight'"},
      {"NoContext", erase("context_length"), "missing metadata 'gemma4.context_length'"},
      {"NoEps", erase("attention.layer_norm_rms_epsilon"),
       "missing metadata 'gemma4.attention.layer_norm_rms_epsilon'"},
      {"Eps0", setFloat("attention.layer_norm_rms_epsilon", 0), "expected a positive number"},
      {"EpsNan", setFloat("attention.layer_norm_rms_epsilon", NAN), "expected a positive number"},
      {"EpsNegative", setFloat("attention.layer_norm_rms_epsilon", -1e-6f), "expected a positive number"},
      {"SoftcapNan", setFloat("final_logit_softcapping", NAN), "gemma4.final_logit_softcapping is"},
      {"SoftcapNegative", setFloat("final_logit_softcapping", -30), "gemma4.final_logit_softcapping is"},
      {"NothingSaysWhatTurns", [](TestModel &m) { m.tensors.erase("rope_freqs.weight"); },
       "missing tensor 'rope_freqs.weight'"},
      {"NothingTurns",
       [](TestModel &m) {
         m.tensors.erase("rope_freqs.weight");
         m.setFloat("gemma4.rope.partial_rotary_factor", 0);
       },
       "gemma4.rope.partial_rotary_factor is 0"},
      {"MoreThanAHeadTurns",
       [](TestModel &m) {
         m.tensors.erase("rope_freqs.weight");
         m.setFloat("gemma4.rope.partial_rotary_factor", NAN);
       },
       "expected a share of a head of 16, up to 1"},
      {"NoWindow", erase("attention.sliding_window"), "missing metadata 'gemma4.attention.sliding_window'"},
      {"Window0", set("attention.sliding_window", 0), "gemma4.attention.sliding_window is 0"},
      {"NoPatternAndOneHeadDim",
       [](TestModel &m) {
         m.metadata.erase("gemma4.attention.sliding_window_pattern");
         m.metadata.erase("gemma4.attention.key_length_swa");
       },
       "missing metadata 'gemma4.attention.sliding_window_pattern'"},
      {"NoPatternAndOtherHeadDims",
       [](TestModel &m) {
         m.metadata.erase("gemma4.attention.sliding_window_pattern");
         m.setUint("gemma4.attention.key_length", 32);
       },
       "layer 1 has heads of 16 elements, which is neither kind's"},
      {"PatternShort", [](TestModel &m) { m.setBools("gemma4.attention.sliding_window_pattern", {true}); },
       "gemma4.attention.sliding_window_pattern has 1 entries, but block_count is 4"},
      {"PatternPeriod0", set("attention.sliding_window_pattern", 0),
       "gemma4.attention.sliding_window_pattern is 0"},
      {"KvHeadsShort",
       [](TestModel &m) {
         m.setUints("gemma4.attention.head_count_kv", {1, 2});
       },
       "gemma4.attention.head_count_kv has 2 entries, but block_count is 4"},
      {"FeedForwardShort",
       [](TestModel &m) {
         m.setUints("gemma4.feed_forward_length", {64, 64, 64});
       },
       "gemma4.feed_forward_length has 3 entries"},
      {"AllLayersShare", set("attention.shared_kv_layers", 4), "expected less than block_count, which is 4"},
      {"SharedHuge", set("attention.shared_kv_layers", 0xffffffff), "expected less than block_count"},
      {"PatternTurned",
       [](TestModel &m) {
         m.setBools("gemma4.attention.sliding_window_pattern", {true, true, false, false});
       },
       "layer 1 has heads of 16 elements, but earlier layers of its kind have 8"},
  };
  for (const BadMetadata &c : cases) {
    TestModel model = TestModel::dense();
    c.change(model);
    EXPECT_SAYS(errorOf(model), c.says) << c.name;
  }
  for (uint32_t used : {0u, 5u}) {
    TestModel model = TestModel::experts();
    model.setUint("gemma4.expert_used_count", used);
    EXPECT_SAYS(errorOf(model), "gemma4.expert_used_count is");
  }
}

TEST(MalformedModelTest, DimensionsThatNoModelHasAreRefusedBeforeTheyAreMultiplied) {
  constexpr uint64_t kHuge = uint64_t(1) << 40;
  for (const TestModel &whole : {TestModel::dense(), TestModel::sharing(), TestModel::experts()}) {
    for (const auto &[name, stored] : whole.tensors) {
      for (size_t d = 0; d < stored.dims.size(); ++d) {
        TestModel model = whole;
        model.tensors[name].dims[d] = kHuge;
        Imported imported({model.bytes(/*data=*/false)}, {.allowMissingData = true});
        EXPECT_FALSE(imported.module) << name << " dimension " << d;
        EXPECT_EQ(imported.errors.size(), 1u) << name << ": " << imported.all();
      }
    }
  }
}

// Any bytes give a module or an error; run with sanitizers this is a small fuzzer.
TEST(MalformedModelTest, MutatedHeadersGiveAModuleOrAnError) {
  std::minstd_rand random(1);
  int imported = 0, refused = 0;
  for (const TestModel &whole : {TestModel::dense(), TestModel::sharing(), TestModel::experts()}) {
    const std::string header = whole.bytes(/*data=*/false);
    for (int i = 0; i < 300; ++i) {
      std::string bytes = header;
      for (int n = 0; n <= i % 4; ++n)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      Imported result({bytes}, {.allowMissingData = true});
      EXPECT_NE(bool(result.module), !result.errors.empty()) << result.all();
      ++(result.module ? imported : refused);
    }
  }
  EXPECT_GT(imported, 20);
  EXPECT_GT(refused, 20);
}

TEST(MalformedModelTest, UnusableRopeBasesFallBackWithAWarning) {
  for (float value : {0.0f, -1.0f, INFINITY, NAN}) {
    TestModel model = TestModel::dense();
    model.setFloat("gemma4.rope.freq_base", value);
    Imported imported(model);
    ASSERT_TRUE(imported.module) << imported.all();
    EXPECT_EQ(imported.warnings.size(), 1u);
    EXPECT_EQ(imported.model().getRopeGlobal().getBaseValue(), 1e6);
  }
}

} // namespace
} // namespace g4::importer
