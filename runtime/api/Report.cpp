#include "runtime/api/Report.h"
#include "runtime/base/Guard.h"
#include "runtime/device/Device.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/module/Module.h"

#include <algorithm>

namespace g4::api {
namespace {

namespace fb = module::fb;

std::string text(const flatbuffers::String *string) { return string ? string->str() : std::string(); }

void addFacts(const fb::Facts &facts, Report &report) {
  report.name = text(facts.name());
  report.architecture = text(facts.architecture());
  report.source = text(facts.source());
  report.activations = text(facts.activations());
  report.kvType = text(facts.kv_type());
  report.vocabulary = facts.vocabulary();
  report.hidden = facts.hidden();
  report.context = facts.context();
  report.window = facts.window();
  report.pageTokens = facts.page_tokens();
  report.expertsUsed = facts.experts_used();
  report.softcap = facts.softcap();
  for (const fb::LayerFacts *layer : *facts.layers())
    report.layers.push_back({layer->kind() == fb::KvClass::sliding, layer->own_kv(), layer->kv_source(),
                             layer->heads(), layer->kv_heads(), layer->head_dim(), layer->ff(),
                             layer->experts()});
}

void addCode(const module::Module &module, Report &report) {
  const std::vector<std::string> have = device::cpuFeatures();
  for (const fb::CodeVariant *variant : *module.root().variants()) {
    device::VariantNeeds needs{text(variant->cpu()), text(variant->target()), {}};
    if (variant->features())
      for (const auto *feature : *variant->features())
        needs.features.push_back(text(feature));
    const bool runs = device::chooseVariant({&needs, 1}, have).ok();
    report.variants.push_back(
        {needs.target, needs.name, needs.features, module.segment(variant->segment()).size(), runs});
  }
  for (const auto *kernel : *module.root().kernels())
    report.kernels.push_back(text(kernel));
}

void addMemory(const module::Module &module, Report &report) {
  const fb::Module &root = module.root();
  for (uint32_t i = 0; i < root.segments()->size(); ++i) {
    const fb::Segment *segment = root.segments()->Get(i);
    report.segments.push_back({fb::EnumNameSegmentKind(segment->kind()), text(segment->name()),
                               segment->size(), !module.segment(i).empty()});
  }
  for (const fb::Weight *weight : *root.weights()) {
    report.weights.push_back({text(weight->name()), text(weight->layout()), text(weight->place()),
                              weight->rows(), weight->columns(), weight->size()});
    const std::string &place = report.weights.back().place;
    auto found = std::find_if(report.places.begin(), report.places.end(),
                              [&](const WeightPlaceReport &p) { return p.place == place; });
    if (found == report.places.end())
      found = report.places.insert(found, {place, 0, 0});
    found->count += 1;
    found->bytes += weight->size();
  }
  for (fb::KvClass kvClass : {fb::KvClass::sliding, fb::KvClass::global}) {
    KvClassReport kv{fb::EnumNameKvClass(kvClass), 0, 0, 0};
    for (const fb::KvLayer *layer : *root.kv_layers())
      if (layer->kv_class() == kvClass) {
        kv.layers += 1;
        kv.pageBytes += layer->page_bytes();
      }
    kv.bytesPerToken = kv.pageBytes / report.pageTokens;
    report.kv.push_back(kv);
  }
}

ProgramReport programReport(const module::Module &module, const fb::Program &program) {
  ProgramReport out{text(program.name()),
                    program.max_rows(),
                    program.max_tail_rows(),
                    program.max_logit_rows(),
                    program.arena_bytes(),
                    program.peak_live_bytes(),
                    {},
                    {},
                    0,
                    0,
                    0};
  for (const fb::Dispatch *dispatch : *program.dispatches()) {
    const fb::Grid &grid = *dispatch->grid();
    DispatchReport d{text(module.root().kernels()->Get(dispatch->kernel())),
                     dispatch->layer(),
                     dispatch->barrier_before(),
                     fb::EnumNameRowSet(grid.set()),
                     grid.rows_per_item(),
                     grid.items_per_block(),
                     dispatch->macs_per_row(),
                     {}};
    if (dispatch->taps())
      for (const fb::Tap *tap : *dispatch->taps())
        d.taps.push_back(text(tap->name()));
    out.dispatches.push_back(std::move(d));
    out.macsRows += grid.set() == fb::RowSet::rows ? dispatch->macs_per_row() : 0;
    out.macsTail += grid.set() == fb::RowSet::tail ? dispatch->macs_per_row() : 0;
    out.macsLogits += grid.set() == fb::RowSet::logits ? dispatch->macs_per_row() : 0;
  }
  for (const fb::Buffer *buffer : *program.buffers())
    out.buffers.push_back({text(buffer->name()), fb::EnumNameRowSet(buffer->set()), buffer->row_bytes(),
                           buffer->offset(), buffer->size()});
  return out;
}

} // namespace

std::vector<std::string> hostFeatures() { return device::cpuFeatures(); }

Result<Report> inspect(const std::string &path, bool verify,
                       const std::function<void(uint64_t, uint64_t)> &onProgress) {
  return guarded([&]() -> Result<Report> {
    G4_ASSIGN_OR_RETURN(const auto module, module::Module::load(path));
    if (verify)
      G4_RETURN_IF_ERROR(module->verifyWeights(onProgress));
    Report report{};
    report.path = path;
    report.producer = text(module->root().producer());
    report.fileBytes = module->fileSize();
    report.weightsMissing = module->weightsMissing();
    addFacts(*module->root().facts(), report);
    addCode(*module, report);
    addMemory(*module, report);
    for (const fb::Program *program : *module->root().programs())
      report.programs.push_back(programReport(*module, *program));
    uint64_t tokenizer = 0;
    for (const SegmentReport &segment : report.segments)
      tokenizer += segment.kind == "tokenizer" ? segment.bytes : 0;
    report.inUse = module::memoryUse(*std::unique_ptr<fb::ModuleT>(module->root().UnPack()), tokenizer);
    return report;
  });
}

} // namespace g4::api
