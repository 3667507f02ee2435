#include "test/unit/engine/ToyModule.h"
#include "runtime/module/StepAbi.h"
#include "runtime/module/Writer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace g4::engine {
namespace {

using namespace module::fb;
constexpr uint32_t kBufferX = 0, kBufferHidden = 1, kBufferLogits = 2, kBufferRoute = 3, kBufferMaxima = 4;

std::unique_ptr<BindingT> bind(BindingKind kind, uint32_t index) {
  auto binding = std::make_unique<BindingT>();
  binding->kind = kind;
  binding->index = index;
  return binding;
}
std::unique_ptr<BindingT> bind(Slot slot) { return bind(BindingKind::descriptor, uint32_t(slot)); }

template <class... Bindings>
std::unique_ptr<DispatchT> dispatch(uint32_t kernel, RowSet set, bool barrier, uint64_t macs,
                                    Bindings... bindings) {
  auto d = std::make_unique<DispatchT>();
  d->kernel = kernel;
  d->grid = std::make_unique<GridT>();
  d->grid->set = set;
  d->grid->rows_per_item = 1;
  d->grid->items_per_block = 1;
  d->layer = 0;
  d->barrier_before = barrier;
  d->macs_per_row = macs;
  (d->bindings.push_back(std::move(bindings)), ...);
  return d;
}

void addTap(DispatchT &dispatch, const char *name, uint32_t columns, Element element) {
  auto tap = std::make_unique<TapT>();
  tap->name = name;
  tap->binding = uint32_t(dispatch.bindings.size() - 1);
  tap->columns = columns;
  tap->element = element;
  dispatch.taps.push_back(std::move(tap));
}

void addBuffer(ProgramT &program, const char *name, RowSet set, uint64_t rowBytes, uint32_t rows) {
  auto buffer = std::make_unique<BufferT>();
  buffer->name = name;
  buffer->set = set;
  buffer->row_bytes = rowBytes;
  buffer->offset = program.arena_bytes;
  buffer->size = (rowBytes * rows + 63) / 64 * 64;
  program.arena_bytes += buffer->size;
  program.peak_live_bytes += buffer->size;
  program.buffers.push_back(std::move(buffer));
}

void addOutput(ProgramT &program, const char *name, uint32_t buffer, uint32_t columns) {
  auto output = std::make_unique<OutputT>();
  output->name = name;
  output->buffer = buffer;
  output->columns = columns;
  program.outputs.push_back(std::move(output));
}

std::unique_ptr<ProgramT> stepProgram(uint32_t maximaColumns) {
  auto program = std::make_unique<ProgramT>();
  program->name = "step";
  program->max_rows = program->max_tail_rows = kToyMaxRows;
  program->max_logit_rows = kToyMaxLogitRows;
  addBuffer(*program, "x", RowSet::rows, 4 * kToyHidden, kToyMaxRows);
  addBuffer(*program, "hidden", RowSet::tail, 4 * kToyHidden, kToyMaxRows);
  addBuffer(*program, "logits", RowSet::logits, 4 * kToyVocabulary, kToyMaxLogitRows);
  addBuffer(*program, "route", RowSet::rows, 4, kToyMaxRows);
  addBuffer(*program, "logit_maxima", RowSet::logits, 4 * std::max(maximaColumns, 4u), kToyMaxLogitRows);
  addOutput(*program, "logits", kBufferLogits, kToyVocabulary);
  addOutput(*program, "hidden", kBufferHidden, kToyHidden);
  if (maximaColumns)
    addOutput(*program, "logit_maxima", kBufferMaxima, maximaColumns);

  auto embed =
      dispatch(0, RowSet::rows, false, 1000, bind(Slot::counts), bind(Slot::tokens), bind(Slot::positions),
               bind(Slot::sequences), bind(Slot::blocks_sliding), bind(Slot::blocks_global),
               bind(BindingKind::kv, 0), bind(BindingKind::kv, 1), bind(BindingKind::arena, kBufferX));
  addTap(*embed, "h_embed", kToyHidden, Element::f32);
  auto route = dispatch(3, RowSet::rows, false, 0, bind(Slot::forced_experts),
                        bind(BindingKind::arena, kBufferRoute), bind(Slot::counts));
  auto tap = std::make_unique<TapT>();
  tap->name = "router_idx1";
  tap->binding = 1;
  tap->columns = 1;
  tap->element = Element::i32;
  route->taps.push_back(std::move(tap));
  auto attend = dispatch(1, RowSet::tail, true, 100, bind(Slot::counts), bind(Slot::tail_map),
                         bind(Slot::positions), bind(Slot::sequences), bind(Slot::blocks_sliding),
                         bind(Slot::blocks_global), bind(BindingKind::kv, 0), bind(BindingKind::kv, 1),
                         bind(Slot::rope_sliding), bind(BindingKind::arena, kBufferHidden));
  addTap(*attend, "h_norm", kToyHidden, Element::f32);
  auto logits = dispatch(2, RowSet::logits, true, 10, bind(Slot::logit_map),
                         bind(BindingKind::arena, kBufferHidden), bind(BindingKind::weight, 0),
                         bind(BindingKind::arena, kBufferLogits), bind(BindingKind::arena, kBufferMaxima));
  program->dispatches.push_back(std::move(embed));
  program->dispatches.push_back(std::move(route));
  program->dispatches.push_back(std::move(attend));
  program->dispatches.push_back(std::move(logits));
  return program;
}

std::unique_ptr<FactsT> facts() {
  auto facts = std::make_unique<FactsT>();
  facts->name = "toy";
  facts->architecture = "toy";
  facts->vocabulary = kToyVocabulary;
  facts->hidden = kToyHidden;
  facts->context = kToyContext;
  facts->window = kToyWindow;
  facts->page_tokens = module::kPageTokens;
  facts->experts_used = 2;
  facts->activations = "f32";
  facts->kv_type = "f32";
  facts->placeholder_tokens = {30, 31};
  for (KvClass kind : {KvClass::sliding, KvClass::global}) {
    auto layer = std::make_unique<LayerFactsT>();
    layer->kind = kind;
    layer->kv_source = uint32_t(facts->layers.size());
    layer->heads = layer->kv_heads = 1;
    layer->head_dim = layer->ff = 4;
    layer->experts = 8;
    layer->own_kv = true;
    facts->layers.push_back(std::move(layer));
    auto &rope = kind == KvClass::sliding ? facts->rope_sliding : facts->rope_global;
    rope = std::make_unique<RopeT>();
    rope->dim = 4;
    rope->base = 1e4;
  }
  return facts;
}

} // namespace

Status writeToyModule(const std::string &path, const ToyOptions &options) {
  std::ifstream file(options.object, std::ios::binary);
  const std::vector<char> object((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

  ModuleT module;
  module.producer = "toy";
  module.weights_missing = options.weightsMissing;
  module.facts = facts();
  module.kernels = {"toy_embed", "toy_attend", "toy_logits", "toy_route"};
  module.programs.push_back(stepProgram(options.maximaColumns));
  for (uint32_t layer : {0u, 1u}) {
    auto kv = std::make_unique<KvLayerT>();
    kv->layer = layer;
    kv->kv_class = layer ? KvClass::global : KvClass::sliding;
    kv->heads = 1;
    kv->dim = 4;
    kv->element = Element::f32;
    kv->page_bytes = 2 * module::kPageTokens * 4 * sizeof(float);
    module.kv_layers.push_back(std::move(kv));
  }

  float values[kToyVocabulary];
  for (uint32_t v = 0; v < kToyVocabulary; ++v)
    values[v] = float(v) / 4;
  G4_ASSIGN_OR_RETURN(auto writer, module::Writer::create(path));
  uint32_t segment = 0;
  if (options.weightsMissing) {
    G4_ASSIGN_OR_RETURN(segment, writer->addMissingWeights("cpu", sizeof values));
  } else {
    G4_ASSIGN_OR_RETURN(segment,
                        writer->addSegment(SegmentKind::weights, "cpu", std::as_bytes(std::span(values))));
  }
  auto weight = std::make_unique<WeightT>();
  weight->name = "bias";
  weight->layout = options.weightLayout;
  weight->rows = 1;
  weight->columns = kToyVocabulary;
  weight->segment = segment;
  weight->size = sizeof values;
  weight->place = "memory";
  module.weights.push_back(std::move(weight));

  auto variant = std::make_unique<CodeVariantT>();
  variant->target = "cpu";
  variant->cpu = "baseline";
  variant->features = options.features;
  G4_ASSIGN_OR_RETURN(variant->segment,
                      writer->addSegment(SegmentKind::code, "baseline", std::as_bytes(std::span(object))));
  module.variants.push_back(std::move(variant));
  return writer->finish(module);
}

ToyHidden toyHidden(const std::vector<int32_t> &tokens, size_t position) {
  ToyHidden hidden{0, 0};
  for (size_t p = 0; p <= position; ++p) {
    const float x = float(tokens[p] + 1); // as they are, placeholders too: only media replaces a row
    hidden.all += x;
    if (position - p < kToyWindow)
      hidden.window += x;
  }
  return hidden;
}

} // namespace g4::engine
