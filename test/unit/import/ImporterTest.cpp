// What the importer makes of files that are right, in every way to store them.
#include "test/unit/import/TestModel.h"

#include "compiler/support/Diagnostics.h"

using namespace mlir;
using namespace g4::gemma;

namespace g4::importer {
namespace {

using testing::TempDir;

std::string layerText(Imported &imported, int64_t index) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << imported.model().getLayerFact(index);
  return text;
}

TEST(ImporterTest, EveryWeightIsATensorAndSaysWhereItIs) {
  TestModel model = TestModel::dense();
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  size_t weights = 0;
  for (gguf::WeightOp weight : imported.module->getOps<gguf::WeightOp>()) {
    ++weights;
    ASSERT_TRUE(model.tensors.contains(weight.getSymName().str()));
    auto name = dyn_cast<NameLoc>(weight.getLoc());
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), weight.getSymName());
    EXPECT_TRUE(isa<FileLineColLoc>(name.getChildLoc()));
  }
  EXPECT_EQ(weights, model.tensors.size());
  ModelOp op = imported.model();
  EXPECT_EQ(op.getHidden(), 32u);
  EXPECT_EQ(op.getVocabulary(), 16u);
  EXPECT_EQ(op.getContextLength(), 4096u);
  EXPECT_EQ(op.getWindow(), 4u);
  EXPECT_EQ(op.getSoftcap().convertToFloat(), 30.0f);
  EXPECT_EQ(op.getRopeSliding().getBaseValue(), 1e4);
  EXPECT_FALSE(op.getRopeSliding().getFactors());
  EXPECT_EQ(op.getRopeGlobal().getFactors().getValue(), "rope_freqs.weight");
  EXPECT_EQ(layerText(imported, 1),
            "#gemma.layer<kind = global, kv = own, kv_source = 1, heads = 2, kv_heads = 2, "
            "head_dim = 16, ff = 64, experts = 0, expert_ff = 0>");
}

TEST(ImporterTest, TheHeadIsTheEmbeddingUnlessThereIsOne) {
  Imported tied(TestModel::dense());
  ASSERT_TRUE(tied.module) << tied.all();
  EXPECT_EQ((*tied.model().getBody().getOps<LogitsOp>().begin()).getHead(), "token_embd.weight");
  TestModel model = TestModel::dense();
  model.tensors["output.weight"] = model.tensors["token_embd.weight"];
  Imported separate(model);
  ASSERT_TRUE(separate.module) << separate.all();
  EXPECT_EQ((*separate.model().getBody().getOps<LogitsOp>().begin()).getHead(), "output.weight");
}

TEST(ImporterTest, FusedQkvGivesThreePartsOfOneTensor) {
  TestModel model = TestModel::dense();
  for (const char *name : {"attn_q.weight", "attn_k.weight", "attn_v.weight"})
    model.tensors.erase(TestModel::layer(1, name));
  model.tensors["blk.1.attn_qkv.weight"] = {{32, 32 + 32 + 32}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  for (int n : {0, 1, 2}) {
    gguf::PartAttr part = findPart(imported, 1, "blk.1.attn_qkv.weight", n);
    ASSERT_TRUE(part);
    EXPECT_EQ(part.getFirst(), 32 * n);
    EXPECT_EQ(part.getRows(), 32);
  }
}

TEST(ImporterTest, FusedQkWithoutVTakesVFromK) {
  TestModel model = TestModel::dense();
  for (const char *name : {"attn_q.weight", "attn_k.weight", "attn_v.weight"})
    model.tensors.erase(TestModel::layer(1, name));
  model.tensors["blk.1.attn_qkv.weight"] = {{32, 32 + 32}}; // two K/V heads, as the metadata says
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.warnings.size(), 0u) << imported.all();
  EXPECT_EQ(imported.model().getLayerFact(1).getKvHeads(), 2);
  EXPECT_FALSE(findPart(imported, 1, "blk.1.attn_qkv.weight", 2));
}

TEST(ImporterTest, FusedGateUpGivesTheGateFirst) {
  TestModel model = TestModel::dense();
  model.tensors.erase("blk.0.ffn_gate.weight");
  model.tensors.erase("blk.0.ffn_up.weight");
  model.tensors["blk.0.ffn_gate_up.weight"] = {{32, 128}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  auto geglu = imported.ops<GegluOp>(0).front();
  EXPECT_EQ(geglu.getGate().getDefiningOp<LinearOp>().getPart(0).getFirst(), 0);
  EXPECT_EQ(geglu.getUp().getDefiningOp<LinearOp>().getPart(0).getFirst(), 64);
}

TEST(ImporterTest, FusedExpertsAreStridedParts) {
  Imported imported(TestModel::experts());
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  auto op = imported.ops<ExpertsOp>(2).front();
  EXPECT_EQ(op.getGate().getFirst(), 0);
  EXPECT_EQ(op.getUp().getFirst(), 8);
  EXPECT_EQ(op.getUp().getStride(), 16);
  EXPECT_EQ(op.getDown().getRows(), 32);
  EXPECT_EQ(imported.weight("blk.2.ffn_gate_up_exps.weight").getMatrixType().getRows(), 64);
  EXPECT_EQ(imported.model().getExpertsUsed(), 2u);
}

TEST(ImporterTest, SplitExpertsAreTwoStacks) {
  TestModel model = TestModel::experts();
  model.tensors.erase("blk.0.ffn_gate_up_exps.weight");
  model.tensors["blk.0.ffn_gate_exps.weight"] = {{32, 8, 4}};
  model.tensors["blk.0.ffn_up_exps.weight"] = {{32, 8, 4}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  auto op = imported.ops<ExpertsOp>(0).front();
  EXPECT_EQ(op.getGate().getWeight().getValue(), "blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(op.getUp().getWeight().getValue(), "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(op.getUp().getFirst(), 0);
  EXPECT_EQ(op.getUp().getStride(), 8);
}

TEST(ImporterTest, OneTensorPerExpertIsOneWeightOfSeveralExtents) {
  for (const char *suffix : {".weight", ""})
    for (bool split : {false, true}) {
      TestModel model = TestModel::experts();
      model.tensors.erase("blk.0.ffn_gate_up_exps.weight");
      model.tensors.erase("blk.0.ffn_down_exps.weight");
      for (int e = 0; e < 4; ++e) {
        auto add = [&](const char *stem, std::vector<uint64_t> dims) {
          model.tensors[TestModel::layer(0, stem) + "." + std::to_string(e) + suffix] = {std::move(dims)};
        };
        if (split) {
          add("ffn_gate_exps", {32, 8});
          add("ffn_up_exps", {32, 8});
        } else {
          add("ffn_gate_up_exps", {32, 16});
        }
        add("ffn_down_exps", {8, 32});
      }
      Imported imported(model);
      ASSERT_TRUE(imported.module) << imported.all();
      EXPECT_EQ(imported.all(), "");
      gguf::WeightOp weight =
          imported.weight(split ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_up_exps.weight");
      EXPECT_EQ(weight.getExtents().size(), 4u);
      EXPECT_EQ(weight.getMatrixType().getRows(), split ? 32 : 64);
      EXPECT_EQ(imported.weight("blk.0.ffn_down_exps.weight").getExtents().size(), 4u);
    }
}

TEST(ImporterTest, GlobalLayersMayTakeVFromTheRawKProjection) {
  Imported imported(TestModel::experts());
  ASSERT_TRUE(imported.module) << imported.all();
  auto append = imported.ops<KvAppendOp>(1).front();
  auto norm = append.getV().getDefiningOp<RmsNormOp>();
  ASSERT_TRUE(norm);
  EXPECT_FALSE(norm.getGainAttr());
  EXPECT_EQ(norm.getX().getDefiningOp<LinearOp>().getPart(0).getWeight().getValue(), "blk.1.attn_k.weight");
}

TEST(ImporterTest, SharingLayersHaveUnresolvedKvOfTheirDonorsShape) {
  Imported imported(TestModel::sharing());
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_TRUE(imported.ops<KvAppendOp>(3).empty());
  KvType type = imported.ops<KvSharedOp>(3).front().getKv().getType();
  EXPECT_EQ(type.getHeads(), 2);
  EXPECT_EQ(type.getDim(), 16);
  EXPECT_EQ(type.getWindow(), 0);
  EXPECT_EQ(imported.ops<KvSharedOp>(2).front().getKv().getType().getWindow(), 4);
  EXPECT_EQ(imported.model().getLayerFact(3).getKvSource(), -1);
  EXPECT_EQ(imported.ops<PerLayerInputsOp>(2).front().getProjection().getFirst(), 16);
}

TEST(ImporterTest, UnusedKvOfSharingLayersIsPassedOverInSilence) {
  TestModel model = TestModel::sharing();
  for (int i : {2, 3})
    for (const char *name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
      model.tensors[TestModel::layer(i, name)] = {{7, 3}}; // any shape
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_FALSE(imported.weight("blk.3.attn_k.weight"));
}

TEST(ImporterTest, FusedQkvOfASharingLayerUsesItsQueriesOnly) {
  TestModel model = TestModel::sharing();
  model.tensors.erase("blk.3.attn_q.weight");
  model.tensors["blk.3.attn_qkv.weight"] = {{32, 32 + 32 + 32}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.model().getLayerFact(3).getHeads(), 2);
  EXPECT_EQ(findPart(imported, 3, "blk.3.attn_qkv.weight").getRows(), 32);
}

TEST(ImporterTest, TensorsHaveOtherSpellings) {
  const std::pair<const char *, const char *> spellings[] = {
      {"post_attention_norm.weight", "attn_post_norm.weight"},
      {"ffn_norm.weight", "ffn_pre_norm.weight"},
      {"post_ffw_norm.weight", "ffn_post_norm.weight"},
      {"pre_ffw_norm_2.weight", "ffn_pre_norm_2.weight"},
      {"post_ffw_norm_1.weight", "ffn_post_norm_1.weight"},
      {"post_ffw_norm_2.weight", "ffn_post_norm_2.weight"},
      {"layer_output_scale.weight", "layer_scalar"},
      {"ffn_down_exps.scale", "ffn_gate_inp.per_expert_scale"},
  };
  TestModel model = TestModel::experts();
  for (auto [known, other] : spellings)
    model.rename(TestModel::layer(0, known), TestModel::layer(0, other));
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  for (auto [known, other] : spellings) {
    EXPECT_TRUE(imported.weight(TestModel::layer(0, other))) << other;
    EXPECT_TRUE(imported.weight(TestModel::layer(1, known))) << known;
  }
}

TEST(ImporterTest, TheKnownSpellingComesFirst) {
  TestModel model = TestModel::dense();
  model.tensors["blk.0.ffn_pre_norm.weight"] = {{32}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_TRUE(imported.weight("blk.0.ffn_norm.weight"));
  ASSERT_EQ(imported.remarks.size(), 1u);
  EXPECT_NE(imported.remarks[0].find("ignored 1 tensor "), std::string::npos) << imported.remarks[0];
}

TEST(ImporterTest, OlderKeysAreUnderstood) {
  TestModel model = TestModel::dense();
  model.metadata.erase("gemma4.rope.freq_base_swa");
  model.setFloat("gemma4.rope.local.freq_base", 5e3f);
  model.setUint("gemma4.attention.head_count_kv", 1);
  model.setUint("gemma4.attention.global_head_count_kv", 2);
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.model().getRopeSliding().getBaseValue(), 5e3);
}

TEST(ImporterTest, AFileWithoutRopeFactorsSaysWhatShareOfAHeadTurns) {
  TestModel model = TestModel::dense();
  model.tensors.erase("rope_freqs.weight");
  model.setFloat("gemma4.rope.partial_rotary_factor", 0.25f);
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_FALSE(imported.model().getRopeGlobal().getFactors());
  EXPECT_EQ(imported.model().getRopeGlobal().getTurning(), 2); // of the 8 pairs of a head of 16
  EXPECT_EQ(imported.model().getRopeSliding().getTurning(), 0);
}

TEST(ImporterTest, OneNumberOfKvHeadsIsTheSlidingLayers) {
  TestModel model = TestModel::dense();
  model.setUint("gemma4.attention.head_count_kv", 1); // global layers have 2
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.model().getLayerFact(0).getKvHeads(), 1);
  EXPECT_EQ(imported.model().getLayerFact(1).getKvHeads(), 2);
}

TEST(ImporterTest, NormsMayBeHalves) {
  for (uint32_t type : {1u, 30u}) { // f16, bf16
    TestModel model = TestModel::experts();
    for (auto &[name, stored] : model.tensors)
      if (stored.dims.size() == 1)
        stored.type = type;
    Imported imported(model);
    ASSERT_TRUE(imported.module) << imported.all();
    EXPECT_EQ(imported.all(), "");
  }
}

TEST(ImporterTest, APatternMayBeAPeriod) {
  TestModel model = TestModel::dense();
  model.setUint("gemma4.attention.sliding_window_pattern", 2);
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_TRUE(imported.model().getLayerFact(2).isSliding());
  EXPECT_FALSE(imported.model().getLayerFact(3).isSliding());
}

TEST(ImporterTest, WithoutAPatternHeadDimensionsTellTheKinds) {
  TestModel model = TestModel::dense();
  model.metadata.erase("gemma4.attention.sliding_window_pattern");
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.warnings.size(), 1u);
  EXPECT_TRUE(imported.model().getLayerFact(2).isSliding());
  EXPECT_FALSE(imported.model().getLayerFact(3).isSliding());
}

struct Disagreement {
  const char *key;
  uint32_t stated;
};

TEST(ImporterTest, TheWeightsWinOverMetadataWithOneWarning) {
  for (Disagreement d : {Disagreement{"feed_forward_length", 48},
                         {"attention.head_count", 4},
                         {"attention.head_count_kv", 5},
                         {"attention.key_length", 32},
                         {"attention.key_length_swa", 16},
                         {"embedding_length", 64},
                         {"expert_count", 8},
                         {"expert_feed_forward_length", 16}}) {
    TestModel model = TestModel::experts();
    model.setUint(std::string("gemma4.") + d.key, d.stated);
    Imported imported(model);
    ASSERT_TRUE(imported.module) << d.key << ": " << imported.all();
    ASSERT_EQ(imported.warnings.size(), 1u) << d.key << ": " << imported.all();
    EXPECT_NE(imported.warnings[0].find(std::string("gemma4.") + d.key + " says " + std::to_string(d.stated)),
              std::string::npos)
        << imported.warnings[0];
    EXPECT_EQ(imported.model().getLayerFact(1).getHeadDim(), 16);
    EXPECT_EQ(imported.model().getLayerFact(1).getFf(), 64);
  }
}

TEST(ImporterTest, MlpWidthsMayDifferByLayer) {
  TestModel model = TestModel::sharing();
  for (int i : {2, 3}) {
    model.tensors[TestModel::layer(i, "ffn_gate.weight")] = {{32, 128}};
    model.tensors[TestModel::layer(i, "ffn_up.weight")] = {{32, 128}};
    model.tensors[TestModel::layer(i, "ffn_down.weight")] = {{128, 32}};
  }
  model.setUints("gemma4.feed_forward_length", {64, 64, 128, 128});
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.model().getLayerFact(1).getFf(), 64);
  EXPECT_EQ(imported.model().getLayerFact(3).getFf(), 128);
}

TEST(ImporterTest, TensorsOfEncodersAndUnknownOnesAreIgnoredWithARemarkEach) {
  TestModel model = TestModel::dense();
  model.tensors["v.blk.0.attn_q.weight"] = {{4, 4}};
  model.tensors["a.conv1d.0.weight"] = {{4, 4}};
  model.tensors["mm.input_projection.weight"] = {{4, 4}, /*iq4_nl*/ 0};
  model.tensors["blk.0.something_new.weight"] = {{256}, /*no such type*/ 999};
  model.tensors["zeta"] = {{4}};
  model.setUint("gemma4.vision.block_count", 16);
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  ASSERT_EQ(imported.remarks.size(), 2u) << imported.all();
  EXPECT_NE(imported.remarks[0].find("ignored 2 tensors"), std::string::npos);
  EXPECT_NE(imported.remarks[0].find("'blk.0.something_new.weight'"), std::string::npos);
  EXPECT_NE(imported.remarks[1].find("ignored 3 tensors of vision and audio encoders"), std::string::npos);
  EXPECT_EQ(imported.warnings.size() + imported.errors.size(), 0u);
}

TEST(ImporterTest, AModelMaySplitOverFiles) {
  TestModel first = TestModel::dense(), second;
  second.setString("general.architecture", "gemma4");
  second.tensors.insert(first.tensors.extract("output_norm.weight"));
  Imported imported({first.bytes(), second.bytes()});
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(cast<gguf::ExtentAttr>(imported.weight("output_norm.weight").getExtents()[0]).getFile(), 1);
  EXPECT_EQ((*imported.module)->getAttrOfType<ArrayAttr>(gguf::kFilesAttr).size(), 2u);
}

TEST(ImporterTest, HeadersAloneAreEnoughWhenDataMayBeMissing) {
  Imported refused(TestModel::dense(), {}, /*data=*/false);
  EXPECT_FALSE(refused.module);
  EXPECT_EQ(refused.errors.size(), 1u);
  Imported accepted(TestModel::dense(), {.allowMissingData = true}, /*data=*/false);
  EXPECT_TRUE(accepted.module) << accepted.all();
}

TEST(ImporterTest, QuantisedMatricesOfAnyMixAreTaken) {
  TestModel model = TestModel::dense();
  model.tensors["blk.0.ffn_gate.weight"].type = 8;   // q8_0
  model.tensors["blk.0.ffn_up.weight"].type = 2;     // q4_0
  model.tensors["blk.0.attn_norm.weight"].type = 30; // bf16
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.weight("blk.0.ffn_up.weight").getMatrixType().getElement(), gguf::ElementType::kQ4_0);
}

TEST(ImporterTest, Nvfp4WeightsHaveTheScaleBesideThem) {
  TestModel model = TestModel::dense();
  model.tensors["blk.0.ffn_down.weight"].type = 40; // nvfp4
  Imported alone(model);                            // as a quantiser writes it
  ASSERT_TRUE(alone.module) << alone.all();
  EXPECT_FALSE(alone.weight("blk.0.ffn_down.weight").getScale());
  model.tensors["blk.0.ffn_down.scale"] = {{1}};
  model.tensors["blk.0.ffn_down.input_scale"] = {{1}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.weight("blk.0.ffn_down.weight").getScale(), "blk.0.ffn_down.scale");
  EXPECT_TRUE(imported.weight("blk.0.ffn_down.scale"));
}

TEST(ImporterTest, WeightsOfOtherTypesMayHaveAScaleToo) {
  TestModel model = TestModel::experts();
  model.tensors.erase("blk.0.ffn_gate_up_exps.weight");
  for (const char *name : {"blk.0.ffn_gate_exps", "blk.0.ffn_up_exps"}) {
    model.tensors[std::string(name) + ".weight"] = {{32, 8, 4}, /*q4_0*/ 2};
    model.tensors[std::string(name) + ".scale"] = {{4}};
  }
  model.tensors["blk.1.attn_q.scale"] = {{1}};
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.weight("blk.0.ffn_up_exps.weight").getScale(), "blk.0.ffn_up_exps.scale");
  EXPECT_EQ(imported.weight("blk.1.attn_q.weight").getScale(), "blk.1.attn_q.scale");
  EXPECT_FALSE(imported.weight("blk.1.attn_k.weight").getScale());
}

TEST(ImporterTest, Nvfp4ExpertsHaveAScaleEachAndTheRouterHasThatOfTheDownProjections) {
  TestModel model = TestModel::experts();
  const uint64_t width = 64; // of the experts; nvfp4 blocks have 64 elements, so the stream must have as many
  model.setUint("gemma4.expert_feed_forward_length", width);
  model.setUint("gemma4.embedding_length", 64);
  for (auto &[name, stored] : model.tensors)
    for (uint64_t &dim : stored.dims)
      dim = dim == TestModel::kHidden ? 64 : dim;
  for (int i = 0; i < int(TestModel::kLayers); ++i) {
    model.tensors[TestModel::layer(i, "attn_q.weight")] = {{64, 2 * TestModel::dim(i)}};
    model.tensors[TestModel::layer(i, "attn_output.weight")] = {{2 * TestModel::dim(i), 64}};
    model.tensors[TestModel::layer(i, "attn_k.weight")] = {
        {64, (TestModel::isGlobal(i) ? 2 : 1) * TestModel::dim(i)}};
    model.tensors.erase(TestModel::layer(i, "ffn_gate_up_exps.weight"));
    for (const char *name : {"ffn_gate_exps", "ffn_up_exps"}) {
      model.tensors[TestModel::layer(i, name) + ".weight"] = {{64, width, 4}, 40};
      model.tensors[TestModel::layer(i, name) + ".scale"] = {{4}};
    }
    model.tensors[TestModel::layer(i, "ffn_down_exps.weight")] = {{width, 64, 4}, 40};
    model.tensors[TestModel::layer(i, "ffn_down_exps.input_scale")] = {{4}};
  }
  Imported imported(model);
  ASSERT_TRUE(imported.module) << imported.all();
  EXPECT_EQ(imported.all(), "");
  EXPECT_EQ(imported.weight("blk.1.ffn_up_exps.weight").getScale(), "blk.1.ffn_up_exps.scale");
  EXPECT_FALSE(imported.weight("blk.1.ffn_down_exps.weight").getScale());
  EXPECT_EQ(imported.ops<RouteOp>(1).front().getExpertScale(), "blk.1.ffn_down_exps.scale");
}

TEST(DiagnosticPrinterTest, AddsTheTensorWhereTheMessageDoesNotNameIt) {
  MLIRContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  support::DiagnosticPrinter printer(&context, stream);
  Location loc = NameLoc::get(StringAttr::get(&context, "blk.0.attn_q.weight"),
                              FileLineColLoc::get(&context, "m.gguf", 7, 0));
  emitError(FusedLoc::get(&context, {loc, UnknownLoc::get(&context)})) << "3 columns, expected 4";
  emitWarning(loc) << "'blk.0.attn_q.weight' is odd";
  emitRemark(loc) << "3 tensors are odd";
  emitError(UnknownLoc::get(&context)) << "no place";
  EXPECT_EQ(text, "m.gguf: error: 3 columns, expected 4 (in GGUF tensor 'blk.0.attn_q.weight')\n"
                  "m.gguf: warning: 'blk.0.attn_q.weight' is odd\n"
                  "m.gguf: note: 3 tensors are odd (in GGUF tensor 'blk.0.attn_q.weight')\n"
                  "error: no place\n");
  EXPECT_EQ(printer.errors(), 2u);
}

} // namespace
} // namespace g4::importer
