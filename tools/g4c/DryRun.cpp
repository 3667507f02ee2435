#include "tools/g4c/DryRun.h"
#include "runtime/module/MemoryUse.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

namespace fb = g4::module::fb;
using namespace llvm;

namespace g4::g4c {
namespace {

struct Bytes {
  uint64_t value;
};
raw_ostream &operator<<(raw_ostream &os, Bytes bytes) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes.value);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  return os << format(unit ? "%.2f " : "%.0f ", value) << kUnits[unit];
}

struct Place {
  uint64_t count = 0, bytes = 0;
};
MapVector<StringRef, Place> placesOf(const fb::ModuleT &header) {
  MapVector<StringRef, Place> places;
  for (const auto &weight : header.weights) {
    Place &place = places[weight->place];
    place.count += 1;
    place.bytes += weight->size;
  }
  return places;
}

struct KvUse {
  StringRef name;
  unsigned layers = 0;
  uint64_t pageBytes = 0, bytesPerToken = 0;
};
SmallVector<KvUse> kvOf(const fb::ModuleT &header) {
  SmallVector<KvUse> uses;
  for (fb::KvClass kind : {fb::KvClass::sliding, fb::KvClass::global}) {
    KvUse use{fb::EnumNameKvClass(kind)};
    for (const auto &layer : header.kv_layers)
      if (layer->kv_class == kind) {
        use.layers += 1;
        use.pageBytes += layer->page_bytes;
      }
    use.bytesPerToken = use.pageBytes / std::max(1u, header.facts->page_tokens);
    uses.push_back(use);
  }
  return uses;
}

size_t barriersOf(const fb::ProgramT &program) {
  return count_if(program.dispatches, [](const auto &d) { return d->barrier_before; });
}

} // namespace

void printPlan(const emit::Plan &plan, raw_ostream &os) {
  const fb::ModuleT &header = plan.header;
  os << header.facts->name << " (" << header.facts->architecture << "), from " << header.facts->source << "\n";
  os << "\nartifact, without code\n";
  for (const auto &[name, place] : placesOf(header))
    os << "  weights, " << left_justify(name, 10) << " " << place.count << ", " << Bytes{place.bytes} << "\n";
  os << "  tokenizer           " << Bytes{plan.tokenizerBytes} << "\n";
  os << "  together            " << Bytes{plan.weightBytes + plan.tokenizerBytes} << "\n";
  os << "\nmemory\n";
  for (const KvUse &use : kvOf(header))
    os << "  K/V, " << left_justify(use.name, 14) << " " << use.layers << (use.layers == 1 ? " layer, " : " layers, ")
       << Bytes{use.bytesPerToken} << " per token" << (use.name == "sliding" ? ", of the window only" : "") << "\n";
  for (const auto &program : header.programs)
    os << "  workspace, " << left_justify(program->name, 8) << " " << Bytes{program->arena_bytes}
       << format(", %.3f of the peak of live bytes\n",
                 program->peak_live_bytes ? double(program->arena_bytes) / double(program->peak_live_bytes) : 0.0);
  const module::MemoryUse inUse = module::memoryUse(header, plan.tokenizerBytes);
  os << "  in use              " << Bytes{inUse.token} << " by one token, " << Bytes{inUse.prompt} << " by a prompt that fills a step\n";
  for (const auto &program : header.programs)
    os << "\nprogram " << program->name << ": " << program->dispatches.size() << " dispatches, " << barriersOf(*program)
       << " barriers; at most " << program->max_rows << " rows, " << program->max_tail_rows << " tail rows, "
       << program->max_logit_rows << " logit rows\n";
  os << "\nkernels: " << header.kernels.size() << "\n";
}

void printPlanJson(const emit::Plan &plan, raw_ostream &os) {
  const fb::ModuleT &header = plan.header;
  const module::MemoryUse inUse = module::memoryUse(header, plan.tokenizerBytes);
  json::OStream out(os, 1);
  out.object([&] {
    out.attribute("source", json::fixUTF8(header.facts->source));
    out.attribute("weight_bytes", plan.weightBytes);
    out.attribute("tokenizer_bytes", plan.tokenizerBytes);
    out.attribute("in_use_token", inUse.token);
    out.attribute("in_use_prompt", inUse.prompt);
    out.attributeObject("memory", [&] {
      out.attributeArray("weights", [&] {
        for (const auto &[name, place] : placesOf(header))
          out.value(json::Object{{"place", name}, {"weights", place.count}, {"bytes", place.bytes}});
      });
      out.attributeArray("kv", [&] {
        for (const KvUse &use : kvOf(header))
          out.value(json::Object{{"class", use.name},
                                 {"layers", use.layers},
                                 {"bytes_per_token", use.bytesPerToken},
                                 {"page_bytes", use.pageBytes}});
      });
    });
    out.attributeArray("programs", [&] {
      for (const auto &program : header.programs)
        out.value(json::Object{{"name", program->name},
                               {"max_rows", program->max_rows},
                               {"max_tail_rows", program->max_tail_rows},
                               {"max_logit_rows", program->max_logit_rows},
                               {"arena_bytes", program->arena_bytes},
                               {"peak_live_bytes", program->peak_live_bytes},
                               {"dispatches", int64_t(program->dispatches.size())},
                               {"barriers", int64_t(barriersOf(*program))}});
    });
    out.attribute("kernels", int64_t(header.kernels.size()));
  });
  os << "\n";
}

} // namespace g4::g4c
