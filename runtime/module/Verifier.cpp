#include "runtime/module/Verifier.h"

#include "runtime/base/Guard.h"
#include "runtime/module/Format.h"
#include "runtime/module/KvLayout.h"
#include "runtime/module/PackedLayout.h"
#include "runtime/module/StepAbi.h"
#include "runtime/module/VerifierDetail.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace g4::module {
namespace {
using namespace detail;

Status checkSegment(const fb::Segment &segment, bool weightsMissing, uint64_t end) {
  G4_RETURN_IF_ERROR(checkEnum("kind", segment.kind()));
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("size", segment.size(), 1, kMaxBytes));
  if (segment.kind() == fb::SegmentKind::weights && weightsMissing) {
    if (segment.offset() != 0 || segment.hash() != 0)
      return malformed("has an offset or a hash, but the module has no weights");
    return {};
  }
  if (segment.offset() < kSegmentAlignment || segment.offset() % kSegmentAlignment != 0)
    return malformed("offset " + std::to_string(segment.offset()) + " is not a positive multiple of " +
                     std::to_string(kSegmentAlignment));
  if (segment.offset() > end || segment.size() > end - segment.offset())
    return malformed("its bytes end behind " + std::to_string(end) + ", where the header starts");
  return {};
}

Status checkSegments(const fb::Module &module, uint64_t headerOffset) {
  std::set<std::pair<fb::SegmentKind, std::string_view>> names;
  std::vector<std::pair<uint64_t, uint64_t>> ranges; // begin, end
  uint32_t tokenizers = 0;
  G4_RETURN_IF_ERROR(checkEach("segments", module.segments(), [&](uint32_t, const fb::Segment &s) -> Status {
    G4_RETURN_IF_ERROR(checkName("name", s.name()));
    if (!names.insert({s.kind(), s.name()->string_view()}).second)
      return malformed("name occurs twice");
    if (s.kind() == fb::SegmentKind::tokenizer && ++tokenizers > 1)
      return malformed("is a second tokenizer");
    G4_RETURN_IF_ERROR(checkSegment(s, module.weights_missing(), headerOffset));
    if (s.offset() != 0)
      ranges.push_back({s.offset(), s.offset() + s.size()});
    return {};
  }));
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      return malformed("segments overlap at offset " + std::to_string(ranges[i].first));
  return {};
}

/// The segment that an entry refers to, of the kind it must be.
Result<const fb::Segment *> segmentOf(const fb::Module &module, uint32_t index, fb::SegmentKind kind) {
  G4_RETURN_IF_ERROR(checkIndex("segment", index, module.segments()->size()));
  const fb::Segment *segment = module.segments()->Get(index);
  if (segment->kind() != kind)
    return malformed("segment " + std::to_string(index) + " holds no " + fb::EnumNameSegmentKind(kind));
  return segment;
}

Status checkVariant(const fb::Module &module, const fb::CodeVariant &variant) {
  G4_RETURN_IF_ERROR(checkName("target", variant.target()));
  G4_RETURN_IF_ERROR(checkName("cpu", variant.cpu()));
  if (variant.features())
    for (const flatbuffers::String *feature : *variant.features())
      G4_RETURN_IF_ERROR(checkName("feature", feature));
  return segmentOf(module, variant.segment(), fb::SegmentKind::code).status();
}

Status checkWeightSize(const fb::Weight &weight) {
  const std::string_view name = weight.layout()->string_view();
  const auto wrong = [&](uint64_t expected) {
    return malformed("size " + std::to_string(weight.size()) + " is not the " + std::to_string(expected) +
                     " bytes of " + std::to_string(weight.rows()) + " x " + std::to_string(weight.columns()) +
                     " " + std::string(name));
  };
  if (name == "vector") {
    const uint64_t expected = weight.rows() * weight.columns() * 4;
    return weight.size() == expected ? Status() : wrong(expected);
  }
  if (name.starts_with("table:")) // rows as in the model file, in one of its many formats
    return weight.size() % weight.rows() == 0
               ? Status()
               : malformed("size " + std::to_string(weight.size()) + " is no multiple of rows " +
                           std::to_string(weight.rows()));
  if (const PackedLayout *layout = packedLayout(name)) {
    if (weight.columns() % layout->superColumns != 0)
      return malformed("columns " + std::to_string(weight.columns()) + " are no multiple of " +
                       std::to_string(layout->superColumns));
    // A stack of matrices pads each one to whole groups: more bytes, but whole groups still.
    const uint64_t expected = layout->matrixBytes(weight.rows(), weight.columns());
    if (weight.size() < expected || weight.size() % layout->groupBytes(weight.columns()) != 0)
      return wrong(expected);
    return {};
  }
  return malformed("layout " + quotedName(name) + " is unknown");
}

Status checkWeight(const fb::Module &module, const fb::Weight &weight) {
  G4_RETURN_IF_ERROR(checkName("layout", weight.layout()));
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("rows", weight.rows(), 1, 1u << 30));
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("columns", weight.columns(), 1, kMaxWidth));
  if (weight.sources())
    for (const flatbuffers::String *source : *weight.sources())
      G4_RETURN_IF_ERROR(checkName("source", source));
  G4_ASSIGN_OR_RETURN(const fb::Segment *segment,
                      segmentOf(module, weight.segment(), fb::SegmentKind::weights));
  if (weight.offset() % kDataAlignment != 0)
    return malformed("offset " + std::to_string(weight.offset()) + " is no multiple of " +
                     std::to_string(kDataAlignment));
  if (weight.size() == 0 || weight.offset() > segment->size() ||
      weight.size() > segment->size() - weight.offset())
    return malformed(std::to_string(weight.size()) + " bytes at " + std::to_string(weight.offset()) +
                     " are not within the " + std::to_string(segment->size()) + " of its segment");
  return checkWeightSize(weight);
}

Status checkRope(const fb::Rope *rope) {
  if (rope == nullptr)
    return {};
  if (rope->dim() == 0 || rope->dim() % 2 != 0 || rope->dim() > kMaxWidth)
    return malformed("dim " + std::to_string(rope->dim()) + " is not positive and even");
  if (!std::isfinite(rope->base()) || rope->base() <= 0)
    return malformed("base is not a positive number");
  const auto *factors = rope->factors();
  if (factors == nullptr || factors->size() == 0)
    return {};
  if (factors->size() != rope->dim() / 2)
    return malformed(std::to_string(factors->size()) + " factors for dim " + std::to_string(rope->dim()));
  for (float factor : *factors)
    if (std::isnan(factor) || factor <= 0)
      return malformed("a factor is not positive");
  return {};
}

Status checkLayer(const fb::Facts &facts, uint32_t index, const fb::LayerFacts &layer) {
  G4_RETURN_IF_ERROR(checkEnum("kind", layer.kind()));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("heads", layer.heads(), 1, kMaxWidth));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("kv_heads", layer.kv_heads(), 1, layer.heads()));
  if (layer.heads() % layer.kv_heads() != 0)
    return malformed("heads " + std::to_string(layer.heads()) + " are no multiple of kv_heads " +
                     std::to_string(layer.kv_heads()));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("head_dim", layer.head_dim(), 1, kMaxWidth));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("ff", layer.ff(), 1, kMaxWidth));
  if (layer.experts() > 0 && (facts.experts_used() == 0 || facts.experts_used() > layer.experts()))
    return malformed("experts " + std::to_string(layer.experts()) + ", of which " +
                     std::to_string(facts.experts_used()) + " are used");
  G4_RETURN_IF_ERROR(checkIndex("kv_source", layer.kv_source(), facts.layers()->size()));
  const fb::LayerFacts &source = *facts.layers()->Get(layer.kv_source());
  if (layer.own_kv() ? layer.kv_source() != index : !source.own_kv())
    return malformed("kv_source " + std::to_string(layer.kv_source()) + " is not the layer that has its K/V");
  if (source.kind() != layer.kind() || source.kv_heads() != layer.kv_heads() ||
      source.head_dim() != layer.head_dim())
    return malformed("kv_source " + std::to_string(layer.kv_source()) + " has K/V of another shape");
  return {};
}

Status checkTokens(const char *list, const flatbuffers::Vector<uint32_t> *tokens, uint32_t vocabulary) {
  if (tokens)
    for (uint32_t token : *tokens)
      G4_RETURN_IF_ERROR(checkIndex(list, token, vocabulary));
  return {};
}

Status checkSampling(const fb::Sampling *sampling) {
  if (sampling == nullptr)
    return {};
  if (!std::isfinite(sampling->temperature()) || sampling->temperature() < 0)
    return malformed("temperature is not a number from 0 up");
  if (sampling->top_k() < 0)
    return malformed("top_k is negative");
  if (!(sampling->top_p() >= 0 && sampling->top_p() <= 1))
    return malformed("top_p is not in 0..1");
  if (!(sampling->min_p() >= 0 && sampling->min_p() <= 1))
    return malformed("min_p is not in 0..1");
  return {};
}

Status checkFacts(const fb::Facts &facts) {
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("vocabulary", facts.vocabulary(), 1, kMaxVocabulary));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("hidden", facts.hidden(), 1, kMaxWidth));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("context", facts.context(), 1, 1u << 30));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("window", facts.window(), 1, 1u << 30));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("page_tokens", facts.page_tokens(), kPageTokens, kPageTokens));
  if (!std::isfinite(facts.softcap()) || facts.softcap() < 0)
    return malformed("softcap is not a number from 0 up");
  G4_RETURN_IF_ERROR(checkName("activations", facts.activations()));
  G4_RETURN_IF_ERROR(checkName("kv_type", facts.kv_type()));
  G4_RETURN_IF_ERROR(checkRope(facts.rope_sliding()).withContext("rope_sliding"));
  G4_RETURN_IF_ERROR(checkRope(facts.rope_global()).withContext("rope_global"));
  G4_RETURN_IF_ERROR(checkTokens("suppress_tokens", facts.suppress_tokens(), facts.vocabulary()));
  G4_RETURN_IF_ERROR(checkTokens("placeholder_tokens", facts.placeholder_tokens(), facts.vocabulary()));
  G4_RETURN_IF_ERROR(checkSampling(facts.sampling()).withContext("sampling"));
  if (facts.layers() == nullptr || facts.layers()->size() == 0 || facts.layers()->size() > kMaxLayers)
    return malformed("layers are missing or more than " + std::to_string(kMaxLayers));
  return checkEach("layers", facts.layers(), [&](uint32_t index, const fb::LayerFacts &layer) {
    return checkLayer(facts, index, layer);
  });
}

Status checkKvLayer(const fb::Facts &facts, const fb::KvLayer &kv) {
  G4_RETURN_IF_ERROR(checkIndex("layer", kv.layer(), facts.layers()->size()));
  G4_RETURN_IF_ERROR(checkEnum("kv_class", kv.kv_class()));
  G4_RETURN_IF_ERROR(checkEnum("element", kv.element()));
  const fb::LayerFacts &layer = *facts.layers()->Get(kv.layer());
  if (!layer.own_kv())
    return malformed("layer " + std::to_string(kv.layer()) + " has no K/V of its own");
  if (kv.kv_class() != layer.kind() || kv.heads() != layer.kv_heads() || kv.dim() != layer.head_dim())
    return malformed("its shape differs from that of layer " + std::to_string(kv.layer()));
  const char *element = fb::EnumNameElement(kv.element());
  const auto layout = kvLayout(element, kv.heads(), kv.dim());
  if (!layout)
    return malformed("heads of " + std::to_string(kv.dim()) + " have no pages of " + element);
  if (kv.page_bytes() != layout->pageBytes())
    return malformed("page_bytes " + std::to_string(kv.page_bytes()) + " are not the " +
                     std::to_string(layout->pageBytes()) + " of its shape");
  return {};
}

Status checkKvLayers(const fb::Module &module) {
  const fb::Facts &facts = *module.facts();
  std::vector<bool> seen(facts.layers()->size());
  G4_RETURN_IF_ERROR(
      checkEach("kv_layers", module.kv_layers(), [&](uint32_t, const fb::KvLayer &kv) -> Status {
        G4_RETURN_IF_ERROR(checkKvLayer(facts, kv));
        if (seen[kv.layer()])
          return malformed("layer " + std::to_string(kv.layer()) + " occurs twice");
        seen[kv.layer()] = true;
        return {};
      }));
  for (uint32_t i = 0; i < facts.layers()->size(); ++i)
    if (facts.layers()->Get(i)->own_kv() && !seen[i])
      return malformed("kv_layers lack layer " + std::to_string(i));
  return {};
}

Status checkModule(const fb::Module &module, uint64_t headerOffset) {
  G4_RETURN_IF_ERROR(checkSegments(module, headerOffset));
  G4_RETURN_IF_ERROR(checkEach("variants", module.variants(), [&](uint32_t, const fb::CodeVariant &variant) {
    return checkVariant(module, variant);
  }));
  NameSet weights;
  G4_RETURN_IF_ERROR(
      checkEach("weights", module.weights(), [&](uint32_t, const fb::Weight &weight) -> Status {
        G4_RETURN_IF_ERROR(weights.add("name", weight.name()));
        return checkWeight(module, weight);
      }));
  if (module.facts() == nullptr)
    return malformed("facts are missing");
  G4_RETURN_IF_ERROR(checkFacts(*module.facts()).withContext("facts"));
  G4_RETURN_IF_ERROR(checkKvLayers(module));

  NameSet kernels;
  if (module.kernels() == nullptr)
    return malformed("kernels are missing");
  for (const flatbuffers::String *kernel : *module.kernels())
    if (Status status = kernels.add("name", kernel); !status.ok())
      return std::move(status).withContext("kernel " + quotedName(kernel->string_view()));

  NameSet programs;
  return checkEach("programs", module.programs(), [&](uint32_t, const fb::Program &program) -> Status {
    G4_RETURN_IF_ERROR(programs.add("name", program.name()));
    return checkProgram(module, program);
  });
}

} // namespace

Result<const fb::Module *> verifyHeader(std::span<const std::byte> header, uint64_t headerOffset,
                                        uint64_t fileSize) {
  return guarded([&]() -> Result<const fb::Module *> {
    if (headerOffset > fileSize || header.size() > fileSize - headerOffset || header.size() > kMaxHeaderBytes)
      return malformed("header: its size is out of range");
    // A table takes 8 bytes or more. Without this bound, tables that share their parts would take forever.
    const auto maxTables = static_cast<flatbuffers::uoffset_t>(header.size() / 8);
    constexpr flatbuffers::uoffset_t kMaxDepth =
        16; // Module → Program → Dispatch → Binding, with room to spare
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(header.data()), header.size(), kMaxDepth,
                                   maxTables);
    if (!fb::VerifyModuleBuffer(verifier))
      return malformed("header: not a well-formed FlatBuffer of this schema");
    const fb::Module *module = fb::GetModule(header.data());
    G4_RETURN_IF_ERROR(checkModule(*module, headerOffset).withContext("header"));
    return module;
  });
}

} // namespace g4::module
