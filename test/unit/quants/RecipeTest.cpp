// Which type a weight gets, by default and by rules.
#include "compiler/quants/Recipe.h"

#include "compiler/quants/Quantize.h"

#include <gtest/gtest.h>

namespace g4::quants {
namespace {

using gguf::Type;

constexpr int kLayers = 16;

Recipe recipe(std::optional<Type> base, std::string_view rules = "") {
  auto made = Recipe::make(base, rules, rules.empty() ? "" : "r.txt", kLayers);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

std::string_view nameOf(Type type) { return gguf::typeInfo(static_cast<uint32_t>(type))->name; }

/// The type that `name` gets from a recipe without rules.
std::string_view by(Type base, std::string_view name, Type stored = Type::kBF16, uint64_t columns = 1536) {
  auto type = recipe(base).typeOf({name, stored, columns, name.find("attn_v") != name.npos});
  EXPECT_TRUE(type.ok());
  return nameOf(*type);
}

std::string messageOf(std::string_view rules) {
  auto made = Recipe::make(std::nullopt, rules, "r.txt", kLayers);
  return made.ok() ? "" : made.status().message();
}

TEST(RecipeTest, TheBaseTypeIsForOrdinaryMatrices) {
  for (Type type : quantizableTypes()) {
    EXPECT_EQ(by(type, "blk.5.ffn_up.weight"), nameOf(type));
    EXPECT_EQ(by(type, "blk.5.ffn_gate_up_exps.weight"), nameOf(type));
    if (type != Type::kMXFP4)
      EXPECT_EQ(by(type, "blk.5.attn_q.weight"), nameOf(type));
  }
  EXPECT_EQ(by(Type::kMXFP4, "blk.5.attn_q.weight"), "q8_0");
}

TEST(RecipeTest, EmbeddingsAndSmallMatricesGetMore) {
  for (std::string_view name : {"token_embd.weight", "output.weight", "per_layer_token_embd.weight"}) {
    EXPECT_EQ(by(Type::kQ4_K, name), "q6_k");
    EXPECT_EQ(by(Type::kQ4_0, name), "q6_k");
    EXPECT_EQ(by(Type::kQ8_0, name), "q8_0");
    EXPECT_EQ(by(Type::kMXFP4, name), "q8_0");
    EXPECT_EQ(by(Type::kF16, name), "f16");
  }
  EXPECT_EQ(by(Type::kQ4_0, "blk.3.inp_gate.weight"), "q8_0");
  EXPECT_EQ(by(Type::kQ4_0, "blk.3.proj.weight", Type::kBF16, 256), "q8_0");
  EXPECT_EQ(by(Type::kQ4_0, "per_layer_model_proj.weight"), "bf16");
  EXPECT_EQ(by(Type::kF16, "per_layer_model_proj.weight"), "f16");
  EXPECT_EQ(by(Type::kQ4_0, "blk.3.ffn_gate_inp.weight", Type::kF32), "f32");
  EXPECT_EQ(by(Type::kF16, "blk.3.ffn_gate_inp.weight", Type::kF32), "f32");
}

TEST(RecipeTest, SensitiveLayersGetMoreInTheKMixes) {
  // Of 16 layers: 0, 1 and 14, 15, and every third from 4 on.
  for (int layer = 0; layer < kLayers; ++layer) {
    bool more = layer < 2 || layer >= 14 || layer % 3 == 1;
    for (std::string_view kind : {"attn_v", "ffn_down", "ffn_down_exps"}) {
      std::string name = "blk." + std::to_string(layer) + "." + std::string(kind) + ".weight";
      EXPECT_EQ(by(Type::kQ4_K, name), more ? "q6_k" : "q4_k") << name;
      EXPECT_EQ(by(Type::kQ5_K, name), more ? "q6_k" : "q5_k") << name;
      EXPECT_EQ(by(Type::kQ4_0, name), "q4_0") << name;
    }
  }
  // attn_k counts where it makes V too.
  EXPECT_EQ(by(Type::kQ4_K, "blk.0.attn_k.weight"), "q4_k");
  EXPECT_EQ(nameOf(*recipe(Type::kQ4_K).typeOf({"blk.0.attn_k.weight", Type::kBF16, 1536, true})), "q6_k");
}

TEST(RecipeTest, ShortRowsFallBackToBlocksOf32) {
  EXPECT_EQ(by(Type::kQ4_K, "blk.5.ffn_up.weight", Type::kBF16, 704), "q5_0");
  EXPECT_EQ(by(Type::kQ5_K, "blk.5.ffn_up.weight", Type::kBF16, 704), "q5_1");
  EXPECT_EQ(by(Type::kQ6_K, "blk.5.ffn_up.weight", Type::kBF16, 704), "q8_0");
  EXPECT_EQ(by(Type::kQ4_0, "blk.5.ffn_up.weight", Type::kBF16, 704), "q4_0");
  EXPECT_EQ(by(Type::kQ4_0, "blk.5.ffn_up.weight", Type::kBF16, 48), "bf16") << "no block fits";
}

TEST(RecipeTest, ASourceOfFewBitsIsNotBlownUp) {
  EXPECT_EQ(by(Type::kQ4_K, "token_embd.weight", Type::kQ4_0), "q4_0") << "as many bits as the base type";
  EXPECT_EQ(by(Type::kQ5_K, "token_embd.weight", Type::kQ4_0), "q5_k") << "fewer than the base type";
  EXPECT_EQ(by(Type::kQ4_K, "token_embd.weight", Type::kQ8_0), "q6_k");
  EXPECT_EQ(by(Type::kQ8_0, "blk.5.attn_q.weight", Type::kQ4_0), "q8_0") << "what was asked for";
}

TEST(RecipeTest, TheFirstRuleThatMatchesDecides) {
  Recipe r = recipe(Type::kQ4_0, "# mine\n\n  blk\\.[0-3]\\. Q8_0   # early layers\nattn_q keep\r\nattn q5_1\n");
  EXPECT_EQ(*r.typeOf({"blk.2.attn_q.weight", Type::kF16, 256}), Type::kQ8_0);
  EXPECT_EQ(*r.typeOf({"blk.4.attn_q.weight", Type::kF16, 256}), Type::kF16);
  EXPECT_EQ(*r.typeOf({"blk.4.attn_k.weight", Type::kF16, 256}), Type::kQ5_1);
  EXPECT_EQ(*r.typeOf({"blk.4.ffn_up.weight", Type::kF16, 256}), Type::kQ4_0) << "the default";
  EXPECT_TRUE(r.checkUsed().ok());
  Recipe only = recipe(std::nullopt, "attn q5_1");
  EXPECT_EQ(*only.typeOf({"blk.4.ffn_up.weight", Type::kF16, 256}), Type::kF16) << "no base type";
}

TEST(RecipeTest, RulesFallBackTooOrSayWhy) {
  Recipe r = recipe(std::nullopt, "\nup q4_k");
  EXPECT_EQ(*r.typeOf({"blk.4.ffn_up.weight", Type::kF16, 96}), Type::kQ5_0);
  auto none = r.typeOf({"blk.4.ffn_up.weight", Type::kF16, 48});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(),
            "r.txt:2: 'blk.4.ffn_up.weight' has rows of 48, which are no multiple of q4_k's block of 256");
}

TEST(RecipeTest, BadRulesNameTheirLine) {
  for (const char *empty : {"", "\n", "# attn_q q4_0\n"})
    EXPECT_EQ(messageOf(empty), "'r.txt' holds no rule");
  EXPECT_EQ(messageOf("a q4_0\nattn_q"), "r.txt:2: expected a pattern and a type");
  EXPECT_EQ(messageOf("attn_q q4_0 please"), "r.txt:1: expected a pattern and a type");
  EXPECT_EQ(messageOf("\n\nattn_q q9_9").substr(0, 52), "r.txt:3: 'q9_9' is no type to quantise to: keep, mxf");
  EXPECT_EQ(messageOf("attn_q q2_k").substr(0, 41), "r.txt:1: 'q2_k' is no type to quantise to") << "can be read only";
  EXPECT_EQ(messageOf("# one\nattn(q q4_0").substr(0, 43), "r.txt:2: 'attn(q' is no regular expression:");
}

TEST(RecipeTest, AByteOrderMarkIsNoPartOfTheFirstPattern) {
  Recipe marked = recipe(std::nullopt, "\xef\xbb\xbf^blk q8_0");
  EXPECT_EQ(*marked.typeOf({"blk.4.attn_q.weight", Type::kF16, 256}), Type::kQ8_0);
}

TEST(RecipeTest, NoPatternCrashesOrHangs) {
  std::string alternatives;
  for (int i = 0; i < 300; ++i)
    alternatives += "x|";
  for (std::string pattern : {std::string("[z-a]"), std::string("["), std::string("[[:foo:]]"), std::string("(.*){1,100000}"), std::string("(?i)x"),
                              std::string(50000, '('), std::string(150000, 'z')})
    EXPECT_NE(messageOf(pattern + " q4_0").find("is no regular expression: "), std::string::npos) << pattern.substr(0, 20);
  for (std::string pattern : {std::string("((((.*)*)*)*)*x"), std::string("(.*.*)*x"), std::string(400, '(') + "a" + std::string(400, ')'),
                              alternatives + "y"})
    (void)recipe(std::nullopt, pattern + " q4_0").typeOf({"blk.4.attn_q.weight", Type::kF16, 256}).ok();
}

TEST(RecipeTest, EveryRuleMustBeOfUse) {
  Recipe unmatched = recipe(std::nullopt, "attn q8_0\nnothing q8_0");
  EXPECT_TRUE(unmatched.typeOf({"blk.4.attn_q.weight", Type::kF16, 256}).ok());
  EXPECT_EQ(unmatched.checkUsed().message(), "r.txt:2: no matrix of the model matches 'nothing'");
  Recipe shadowed = recipe(std::nullopt, ". q8_0\nattn q4_0");
  EXPECT_TRUE(shadowed.typeOf({"blk.4.attn_q.weight", Type::kF16, 256}).ok());
  EXPECT_EQ(shadowed.checkUsed().message(), "r.txt:2: earlier rules take every matrix that matches 'attn'");
}

TEST(RecipeTest, NamesAreTakenInEitherCase) {
  EXPECT_EQ(typeNamed("Q4_K"), Type::kQ4_K);
  EXPECT_EQ(typeNamed("mxfp4"), Type::kMXFP4);
  EXPECT_EQ(typeNamed("q4_k_m"), std::nullopt);
  EXPECT_EQ(typeNamed("iq2_s"), std::nullopt) << "can be read only";
}

} // namespace
} // namespace g4::quants
