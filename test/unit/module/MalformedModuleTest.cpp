// A named case per field of the header set wrong, behind a hash that is right; then seeded mutations.
#include "runtime/module/Module.h"

#include "runtime/base/Hash.h"
#include "runtime/module/Format.h"
#include "test/support/ModuleBuilder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

namespace g4::module {
namespace {
using test::AlignedBytes;
using M = fb::ModuleT;

struct Case {
  const char *name;
  const char *message; ///< part of it
  void (*breakHeader)(M &);
};

template <class E> E unknown() { return static_cast<E>(200); }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kHuge = uint64_t(1) << 60;

fb::ProgramT &program(M &m) { return *m.programs[0]; }
fb::DispatchT &dispatch(M &m, size_t i = 0) { return *program(m).dispatches[i]; }
fb::BindingT &binding(M &m, size_t i) { return *dispatch(m).bindings[i]; }
fb::LayerFactsT &layer(M &m, size_t i) { return *m.facts->layers[i]; }

const Case kCases[] = {
    {"SegmentKind", "segments[0] 'cpu': kind has unknown value 200",
     [](M &m) { m.segments[0]->kind = unknown<fb::SegmentKind>(); }},
    {"SegmentNameMissing", "segments[0]: name is missing", [](M &m) { m.segments[0]->name = ""; }},
    {"SegmentNameTooLong", "name has 257 bytes", [](M &m) { m.segments[0]->name = std::string(257, 'n'); }},
    {"SegmentNameTwice", "segments[1] 'cpu': name occurs twice",
     [](M &m) {
       m.segments[1]->kind = fb::SegmentKind::weights;
       m.segments[1]->name = "cpu";
     }},
    {"SegmentOffsetUnaligned", "segments[0] 'cpu': offset 4097", [](M &m) { m.segments[0]->offset = 4097; }},
    {"SegmentOffsetInPrelude", "segments[0] 'cpu': offset 0", [](M &m) { m.segments[0]->offset = 0; }},
    {"SegmentOffsetPastHeader", "its bytes end behind", [](M &m) { m.segments[0]->offset = kHuge; }},
    {"SegmentSizeZero", "segments[0] 'cpu': size 0", [](M &m) { m.segments[0]->size = 0; }},
    {"SegmentSizePastHeader", "its bytes end behind", [](M &m) { m.segments[0]->size = 1 << 20; }},
    {"SegmentSizeHuge", "segments[0] 'cpu': size", [](M &m) { m.segments[0]->size = ~uint64_t(0); }},
    {"SegmentsOverlap", "segments overlap at offset 4096", [](M &m) { m.segments[1]->offset = 4096; }},
    {"SecondTokenizer", "is a second tokenizer",
     [](M &m) { m.segments[1]->kind = fb::SegmentKind::tokenizer; }},
    {"MissingWeightsWithOffset", "the module has no weights", [](M &m) { m.weights_missing = true; }},

    {"VariantTarget", "variants[0]: target is missing", [](M &m) { m.variants[0]->target = ""; }},
    {"VariantCpu", "variants[0]: cpu is missing", [](M &m) { m.variants[0]->cpu = ""; }},
    {"VariantFeature", "variants[0]: feature is missing", [](M &m) { m.variants[0]->features[1] = ""; }},
    {"VariantSegmentIndex", "variants[0]: segment 3 is not below 3",
     [](M &m) { m.variants[0]->segment = 3; }},
    {"VariantSegmentKind", "variants[0]: segment 0 holds no code", [](M &m) { m.variants[0]->segment = 0; }},

    {"WeightNameMissing", "weights[0]: name is missing", [](M &m) { m.weights[0]->name = ""; }},
    {"WeightNameTwice", "weights[1] 'token_embd': name occurs twice",
     [](M &m) { m.weights[1]->name = "token_embd"; }},
    {"WeightLayoutMissing", "layout is missing", [](M &m) { m.weights[0]->layout = ""; }},
    {"WeightLayoutUnknown", "layout 'q9_9' is unknown", [](M &m) { m.weights[0]->layout = "q9_9"; }},
    {"TableSizeNoMultipleOfRows", "size 545 is no multiple of rows 16",
     [](M &m) {
       m.weights[0]->layout = "table:q8_0";
       m.weights[0]->size = 545;
     }},
    {"WeightRowsZero", "rows 0", [](M &m) { m.weights[0]->rows = 0; }},
    {"WeightRowsHuge", "rows 1152921504606846976", [](M &m) { m.weights[0]->rows = kHuge; }},
    {"WeightColumnsZero", "columns 0", [](M &m) { m.weights[0]->columns = 0; }},
    {"WeightColumnsHuge", "columns 1152921504606846976", [](M &m) { m.weights[0]->columns = kHuge; }},
    {"WeightColumnsNoMultipleOfBlock", "columns 33 are no multiple of 32",
     [](M &m) { m.weights[0]->columns = 33; }},
    {"WeightSegmentIndex", "segment 9 is not below 3", [](M &m) { m.weights[0]->segment = 9; }},
    {"WeightSegmentKind", "segment 1 holds no weights", [](M &m) { m.weights[0]->segment = 1; }},
    {"WeightOffsetUnaligned", "offset 4 is no multiple of 64", [](M &m) { m.weights[0]->offset = 4; }},
    {"WeightOffsetPastSegment", "are not within the 4096", [](M &m) { m.weights[0]->offset = 8192; }},
    {"WeightSizeZero", "0 bytes at 0", [](M &m) { m.weights[0]->size = 0; }},
    {"WeightSizePastSegment", "are not within the 4096", [](M &m) { m.weights[1]->size = 4096; }},
    {"WeightSizeHuge", "are not within the 4096", [](M &m) { m.weights[0]->size = ~uint64_t(0); }},
    {"WeightSizeTooSmallForShape", "size 512 is not the 544 bytes of 16 x 32 q8_0",
     [](M &m) { m.weights[0]->size = 512; }},
    {"WeightSizeNoWholeGroup", "size 576 is not the 544 bytes", [](M &m) { m.weights[0]->size = 576; }},
    {"VectorSizeOther", "size 64 is not the 128 bytes of 1 x 32 vector",
     [](M &m) { m.weights[1]->size = 64; }},
    {"WeightSource", "source is missing", [](M &m) { m.weights[0]->sources = {""}; }},

    {"FactsMissing", "facts are missing", [](M &m) { m.facts.reset(); }},
    {"Vocabulary", "facts: vocabulary 0", [](M &m) { m.facts->vocabulary = 0; }},
    {"VocabularyHuge", "facts: vocabulary", [](M &m) { m.facts->vocabulary = 1u << 30; }},
    {"Hidden", "facts: hidden 0", [](M &m) { m.facts->hidden = 0; }},
    {"Context", "facts: context 0", [](M &m) { m.facts->context = 0; }},
    {"Window", "facts: window 0", [](M &m) { m.facts->window = 0; }},
    {"PageTokens", "facts: page_tokens 63", [](M &m) { m.facts->page_tokens = 63; }},
    {"Softcap", "facts: softcap", [](M &m) { m.facts->softcap = kNan; }},
    {"Activations", "facts: activations is missing", [](M &m) { m.facts->activations = ""; }},
    {"KvType", "facts: kv_type is missing", [](M &m) { m.facts->kv_type = ""; }},
    {"LayersMissing", "facts: layers are missing", [](M &m) { m.facts->layers.clear(); }},
    {"LayerKind", "facts: layers[0]: kind has unknown value",
     [](M &m) { layer(m, 0).kind = unknown<fb::KvClass>(); }},
    {"LayerHeads", "facts: layers[1]: heads 0", [](M &m) { layer(m, 1).heads = 0; }},
    {"LayerKvHeadsZero", "kv_heads 0", [](M &m) { layer(m, 0).kv_heads = 0; }},
    {"LayerKvHeadsUneven", "heads 4 are no multiple of kv_heads 3", [](M &m) { layer(m, 0).kv_heads = 3; }},
    {"LayerHeadDim", "head_dim 0", [](M &m) { layer(m, 0).head_dim = 0; }},
    {"LayerFf", "ff 0", [](M &m) { layer(m, 0).ff = 0; }},
    {"LayerExperts", "experts 8, of which 0 are used", [](M &m) { layer(m, 0).experts = 8; }},
    {"ExpertsUsedTooMany", "experts 8, of which 9 are used",
     [](M &m) {
       layer(m, 0).experts = 8;
       m.facts->experts_used = 9;
     }},
    {"LayerKvSourceIndex", "layers[2]: kv_source 3 is not below 3", [](M &m) { layer(m, 2).kv_source = 3; }},
    {"LayerKvSourceShares", "layers[2]: kv_source 2 is not the layer",
     [](M &m) { layer(m, 2).kv_source = 2; }},
    {"LayerKvSourceOfOwnKv", "layers[0]: kv_source 2 is not the layer",
     [](M &m) { layer(m, 0).kv_source = 2; }},
    {"LayerKvSourceOfOtherKind", "layers[2]: kv_source 1 has K/V of another shape",
     [](M &m) { layer(m, 2).kv_source = 1; }},
    {"RopeDimOdd", "facts: rope_sliding: dim 15", [](M &m) { m.facts->rope_sliding->dim = 15; }},
    {"RopeDimZero", "facts: rope_global: dim 0", [](M &m) { m.facts->rope_global->dim = 0; }},
    {"RopeBase", "facts: rope_sliding: base", [](M &m) { m.facts->rope_sliding->base = -1; }},
    {"RopeFactorCount", "facts: rope_global: 15 factors",
     [](M &m) { m.facts->rope_global->factors.pop_back(); }},
    {"RopeFactorZero", "facts: rope_global: a factor", [](M &m) { m.facts->rope_global->factors[3] = 0; }},
    {"SuppressToken", "facts: suppress_tokens 16 is not below 16",
     [](M &m) { m.facts->suppress_tokens = {16}; }},
    {"PlaceholderToken", "facts: placeholder_tokens", [](M &m) { m.facts->placeholder_tokens = {1u << 31}; }},
    {"SamplingTemperature", "facts: sampling: temperature",
     [](M &m) { m.facts->sampling->temperature = kNan; }},
    {"SamplingTopK", "facts: sampling: top_k", [](M &m) { m.facts->sampling->top_k = -1; }},
    {"SamplingTopP", "facts: sampling: top_p", [](M &m) { m.facts->sampling->top_p = 1.5f; }},
    {"SamplingMinP", "facts: sampling: min_p", [](M &m) { m.facts->sampling->min_p = kNan; }},

    {"KvLayerIndex", "kv_layers[0]: layer 3 is not below 3", [](M &m) { m.kv_layers[0]->layer = 3; }},
    {"KvLayerThatShares", "layer 2 has no K/V of its own", [](M &m) { m.kv_layers[0]->layer = 2; }},
    {"KvLayerTwice", "layer 1 occurs twice",
     [](M &m) { m.kv_layers[0] = std::make_unique<fb::KvLayerT>(*m.kv_layers[1]); }},
    {"KvLayerLacking", "kv_layers lack layer 1", [](M &m) { m.kv_layers.pop_back(); }},
    {"KvLayerClass", "kv_layers[0]: its shape differs",
     [](M &m) { m.kv_layers[0]->kv_class = fb::KvClass::global; }},
    {"KvLayerClassUnknown", "kv_class has unknown value",
     [](M &m) { m.kv_layers[0]->kv_class = unknown<fb::KvClass>(); }},
    {"KvLayerHeads", "kv_layers[0]: its shape differs", [](M &m) { m.kv_layers[0]->heads = 1u << 31; }},
    {"KvLayerDim", "kv_layers[0]: its shape differs", [](M &m) { m.kv_layers[0]->dim = 0; }},
    {"KvLayerElement", "element has unknown value",
     [](M &m) { m.kv_layers[0]->element = unknown<fb::Element>(); }},
    {"KvLayerElementOfNoPages", "heads of 16 have no pages of i32",
     [](M &m) { m.kv_layers[0]->element = fb::Element::i32; }},
    {"KvLayerHeadTooSmall", "heads of 16 have no pages of q8_0",
     [](M &m) { m.kv_layers[0]->element = fb::Element::q8_0; }},
    {"KvLayerQuantisedPageBytes", "page_bytes 16384 are not the 8704",
     [](M &m) { m.kv_layers[1]->element = fb::Element::q8_0; }},
    {"KvLayerPageBytes", "page_bytes 1 are not the 8192", [](M &m) { m.kv_layers[0]->page_bytes = 1; }},

    {"KernelNameMissing", "kernel '': name is missing", [](M &m) { m.kernels[0] = ""; }},
    {"KernelNameTwice", "kernel 'embed': name occurs twice", [](M &m) { m.kernels[1] = "embed"; }},

    {"ProgramNameMissing", "programs[0]: name is missing", [](M &m) { program(m).name = ""; }},
    {"ProgramNameTwice", "programs[1] 'step': name occurs twice",
     [](M &m) {
       m.programs.push_back(std::make_unique<fb::ProgramT>());
       m.programs[1]->name = "step";
     }},
    {"MaxRowsZero", "programs[0] 'step': max_rows 0", [](M &m) { program(m).max_rows = 0; }},
    {"MaxRowsHuge", "max_rows 4294967295", [](M &m) { program(m).max_rows = ~0u; }},
    {"MaxTailRowsAboveRows", "max_tail_rows 9", [](M &m) { program(m).max_tail_rows = 9; }},
    {"MaxLogitRowsAboveTail", "max_logit_rows 5", [](M &m) { program(m).max_logit_rows = 5; }},
    {"ArenaHuge", "arena_bytes", [](M &m) { program(m).arena_bytes = ~uint64_t(0); }},
    {"PeakAboveArena", "peak_live_bytes 1153", [](M &m) { program(m).peak_live_bytes = 1153; }},
    {"BufferName", "buffers[0]: name is missing", [](M &m) { program(m).buffers[0]->name = ""; }},
    {"BufferSet", "buffers[0] 'hidden': set has unknown value",
     [](M &m) { program(m).buffers[0]->set = unknown<fb::RowSet>(); }},
    {"BufferRowBytesZero", "row_bytes 0", [](M &m) { program(m).buffers[0]->row_bytes = 0; }},
    {"BufferRowBytesHuge", "row_bytes 1152921504606846976",
     [](M &m) { program(m).buffers[0]->row_bytes = kHuge; }},
    {"BufferOffsetUnaligned", "offset 1 is no multiple of 64",
     [](M &m) { program(m).buffers[0]->offset = 1; }},
    {"BufferOffsetPastArena", "are not within the arena",
     [](M &m) { program(m).buffers[0]->offset = kHuge; }},
    {"BufferSizePastArena", "are not within the arena", [](M &m) { program(m).buffers[1]->size = 129; }},
    {"BufferSizeTooSmall", "size 1023 is less than 8 rows of 128",
     [](M &m) { program(m).buffers[0]->size = 1023; }},
    {"DispatchKernel", "dispatches[0]: kernel 2 is not below 2", [](M &m) { dispatch(m).kernel = 2; }},
    {"DispatchLayerTooLarge", "dispatches[0]: layer 3", [](M &m) { dispatch(m).layer = 3; }},
    {"DispatchLayerNegative", "dispatches[0]: layer -2", [](M &m) { dispatch(m).layer = -2; }},
    {"GridMissing", "dispatches[1]: grid is missing", [](M &m) { dispatch(m, 1).grid.reset(); }},
    {"GridSet", "grid set has unknown value", [](M &m) { dispatch(m).grid->set = unknown<fb::RowSet>(); }},
    {"GridRowsPerItemZero", "rows_per_item 0", [](M &m) { dispatch(m).grid->rows_per_item = 0; }},
    {"GridItemsPerBlockZero", "items_per_block 0", [](M &m) { dispatch(m).grid->items_per_block = 0; }},
    {"GridItemsPerBlockHuge", "items_per_block 4294967295",
     [](M &m) { dispatch(m).grid->items_per_block = ~0u; }},
    {"BindingKind", "bindings[3]: kind has unknown value",
     [](M &m) { binding(m, 3).kind = unknown<fb::BindingKind>(); }},
    {"BindingWeightIndex", "bindings[0]: index (of a weight) 2", [](M &m) { binding(m, 0).index = 2; }},
    {"BindingWeightOffset", "bindings[0]: offset 544 is not below 544",
     [](M &m) { binding(m, 0).offset = 544; }},
    {"BindingSlotIndex", "bindings[1]: index (of a slot) 99", [](M &m) { binding(m, 1).index = 99; }},
    {"BindingSlotOffset", "bindings[1]: offset 4 is not below 1", [](M &m) { binding(m, 1).offset = 4; }},
    {"BindingKvIndex", "bindings[2]: index (of a K/V layer) 2", [](M &m) { binding(m, 2).index = 2; }},
    {"BindingKvOffset", "bindings[2]: offset 16384 is not below 16384",
     [](M &m) { binding(m, 2).offset = 16384; }},
    {"BindingBufferIndex", "bindings[3]: index (of a buffer) 2", [](M &m) { binding(m, 3).index = 2; }},
    {"BindingBufferOffset", "bindings[3]: offset 1152921504606846976",
     [](M &m) { binding(m, 3).offset = kHuge; }},
    {"TapName", "taps[0]: name is missing", [](M &m) { dispatch(m).taps[0]->name = ""; }},
    {"TapBinding", "taps[0] 'hidden': binding 4 is not below 4",
     [](M &m) { dispatch(m).taps[0]->binding = 4; }},
    {"TapBindingKind", "its binding is no arena buffer", [](M &m) { dispatch(m).taps[0]->binding = 0; }},
    {"TapColumnsZero", "columns 0", [](M &m) { dispatch(m).taps[0]->columns = 0; }},
    {"TapColumnsTooWide", "columns 33 are wider", [](M &m) { dispatch(m).taps[0]->columns = 33; }},
    {"TapElement", "element is neither f32 nor i32",
     [](M &m) { dispatch(m).taps[0]->element = fb::Element::f16; }},
    {"OutputNameMissing", "outputs[0]: name is missing", [](M &m) { program(m).outputs[0]->name = ""; }},
    {"OutputBuffer", "outputs[0] 'logits': buffer 2 is not below 2",
     [](M &m) { program(m).outputs[0]->buffer = 2; }},
    {"OutputColumnsZero", "columns 0", [](M &m) { program(m).outputs[0]->columns = 0; }},
    {"OutputColumnsTooWide", "columns 17 are wider", [](M &m) { program(m).outputs[0]->columns = 17; }},
};

class MalformedHeader : public testing::TestWithParam<Case> {};

TEST_P(MalformedHeader, IsRefusedInOneLine) {
  const AlignedBytes good = test::tinyModule();
  auto header = test::unpackHeader(good);
  GetParam().breakHeader(*header);
  const AlignedBytes bad = test::withHeader(good, *header);
  const auto parsed = Module::parse(bad.span());
  ASSERT_FALSE(parsed.ok());
  const std::string &message = parsed.status().message();
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}
INSTANTIATE_TEST_SUITE_P(Fields, MalformedHeader, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

/// The cases above differ from a header that is accepted in one field only.
TEST(MalformedHeaderBaseline, TheUnbrokenHeaderIsAccepted) {
  const AlignedBytes good = test::tinyModule();
  const AlignedBytes again = test::withHeader(good, *test::unpackHeader(good));
  const auto parsed = Module::parse(again.span());
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
}

/// Makes the prelude's hash that of the changed header.
void seal(AlignedBytes &artifact) {
  Prelude prelude;
  std::memcpy(&prelude, artifact.span().data(), sizeof prelude);
  artifact.put(offsetof(Prelude, headerHash), hash64(artifact.span().subspan(prelude.headerOffset)));
}

/// Touches all that the loader promises to be in range.
uint64_t readEverything(const Module &module) {
  uint64_t sum = 0;
  const fb::Module &root = module.root();
  for (uint32_t i = 0; i < root.segments()->size(); ++i)
    if (const auto bytes = module.segment(i); !bytes.empty())
      sum += uint64_t(bytes.front()) + uint64_t(bytes.back());
  for (uint32_t i = 0; i < root.weights()->size(); ++i)
    if (const auto bytes = module.weight(i); !bytes.empty())
      sum += uint64_t(bytes.front()) + uint64_t(bytes.back());
  for (const fb::Program *program : *root.programs()) {
    sum += module.findProgram(program->name()->string_view()) != nullptr;
    for (const fb::Dispatch *dispatch : *program->dispatches()) {
      sum += root.kernels()->Get(dispatch->kernel())->size();
      for (const fb::Binding *binding : *dispatch->bindings())
        if (binding->kind() == fb::BindingKind::arena)
          sum += program->buffers()->Get(binding->index())->size();
    }
  }
  return sum;
}

TEST(MalformedHeaderSweep, MutatedHeadersNeverCrash) {
  const AlignedBytes good = test::tinyModule();
  Prelude prelude;
  std::memcpy(&prelude, good.span().data(), sizeof prelude);
  unsigned accepted = 0, refused = 0;
  uint64_t sum = 0;
  const auto tryHeader = [&](AlignedBytes &artifact) {
    seal(artifact);
    const auto parsed = Module::parse(artifact.span());
    ++(parsed.ok() ? accepted : refused);
    if (parsed.ok())
      sum += readEverything(**parsed);
    else
      ASSERT_NE(parsed.status().code(), Code::kInternal) << parsed.status().message();
  };
  for (uint64_t at = prelude.headerOffset; at < good.size(); ++at)
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      AlignedBytes artifact(good.span());
      artifact[at] = std::byte(value);
      tryHeader(artifact);
    }
  std::mt19937 random(20240229); // fixed: the same files in every run
  for (int i = 0; i < 10000; ++i) {
    AlignedBytes artifact(good.span());
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits)
      artifact[prelude.headerOffset + random() % prelude.headerSize] = std::byte(random());
    tryHeader(artifact);
  }
  EXPECT_GT(accepted, 100u); // such as a changed letter of a name
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(sum, 0u);
}

TEST(MalformedHeaderSweep, EveryTruncatedHeaderIsRefused) {
  const AlignedBytes good = test::tinyModule();
  Prelude prelude;
  std::memcpy(&prelude, good.span().data(), sizeof prelude);
  // The last few bytes may be padding.
  for (uint64_t size = prelude.headerOffset + 1; size < good.size() - 7; ++size) {
    AlignedBytes part(good.span().first(size));
    part.put(offsetof(Prelude, fileSize), size);
    part.put(offsetof(Prelude, headerSize), size - prelude.headerOffset);
    seal(part);
    ASSERT_FALSE(Module::parse(part.span()).ok()) << size;
  }
}

} // namespace
} // namespace g4::module
