#include "runtime/engine/Engine.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/engine/Descriptors.h"
#include "runtime/engine/Weights.h"

#include <algorithm>

namespace g4::engine {

namespace fb = module::fb;

static_assert(size_t(fb::Slot::MAX) + 1 == kSlotCount && size_t(fb::Slot::forced_experts) == 11 &&
              size_t(fb::Slot::blocks_sliding) == 7 && size_t(fb::Slot::rope_sliding) == 9);

struct Engine::Impl {
  std::shared_ptr<const module::Module> module;
  const fb::Program *program = nullptr;
  EngineLimits limits{};
  std::string variant;
  uint32_t maxSequences = 0;

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Executable> code;
  std::unique_ptr<kv::KvCache> cache;
  Weights weights;
  Descriptors descriptors;
  std::unique_ptr<device::Memory> arena;
  const fb::Output *logits = nullptr, *hidden = nullptr, *maxima = nullptr;
  uint32_t tile = 0; // logits to each of the maxima

  std::vector<void *> addresses;        // all dispatches' bindings, in order
  std::vector<device::Launch> launches; // [dispatches]; `items` changes with each step
  std::vector<kv::Growth> stepRows;     // distinct sequences of the step, rows of each
  StepCounters counters;

  Status loadCode(const EngineOptions &options);
  Status makeCache(const EngineOptions &options);
  Status makeDescriptors(const EngineOptions &options);
  Status bindProgram();
  Result<std::byte *> resolve(const fb::Binding &binding) const;

  Status check(const Step &step);
  Status launch(const TapFn &onTap);
  Status report(const fb::Dispatch &dispatch, const TapFn &onTap) const;
  uint32_t count(fb::RowSet set) const;
  std::span<const float> output(const fb::Output *output, uint32_t rows) const;
};

namespace {

kv::Element kvElement(fb::Element element) {
  return element == fb::Element::f32    ? kv::Element::kF32
         : element == fb::Element::f16  ? kv::Element::kF16
         : element == fb::Element::bf16 ? kv::Element::kBf16
                                        : kv::Element::kQuantised;
}

RopeAngles ropeAngles(const fb::Rope *rope) {
  if (!rope)
    return {};
  std::span<const float> factors;
  if (rope->factors())
    factors = {rope->factors()->data(), rope->factors()->size()};
  return RopeAngles(rope->dim(), rope->base(), factors);
}

Status rowError(size_t row, const std::string &what) {
  return invalidArgument("step row " + std::to_string(row) + ": " + what);
}

Status checkSubset(const char *name, std::span<const uint32_t> rows, size_t limit) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= limit || (i && rows[i] <= rows[i - 1]))
      return invalidArgument(std::string(name) + " rows must be ascending rows of the step");
  return {};
}

Status checkCount(const char *what, size_t have, uint32_t most) {
  if (have > most)
    return invalidArgument("a step of " + std::to_string(have) + " " + what +
                           ", but the program holds at most " + std::to_string(most));
  return {};
}

} // namespace

//===- Making an engine
//-----------------------------------------------------------------------------------===//

Status Engine::Impl::loadCode(const EngineOptions &options) {
  const fb::Module &header = module->root();
  std::vector<device::VariantNeeds> variants;
  for (const fb::CodeVariant *variant : *header.variants()) {
    device::VariantNeeds &needs = variants.emplace_back();
    needs.name = variant->cpu()->str();
    needs.target = variant->target()->str();
    if (variant->features())
      for (const auto *feature : *variant->features())
        needs.features.push_back(feature->str());
  }
  G4_ASSIGN_OR_RETURN(const size_t chosen,
                      device::chooseVariant(variants, device::cpuFeatures(), options.variant));
  variant = variants[chosen].name;
  std::vector<std::string> kernels;
  for (const auto *kernel : *header.kernels())
    kernels.push_back(kernel->str());
  const uint32_t segment = header.variants()->Get(uint32_t(chosen))->segment();
  G4_ASSIGN_OR_RETURN(code, device->loadCode(module->segment(segment), kernels));
  return {};
}

Status Engine::Impl::makeCache(const EngineOptions &options) {
  const fb::Facts &facts = *module->root().facts();
  kv::Geometry geometry{facts.page_tokens(), std::max(facts.window(), 1u), {}};
  for (const fb::KvLayer *layer : *module->root().kv_layers())
    geometry.layers.push_back(
        {layer->kv_class() == fb::KvClass::sliding ? kv::PageClass::kSliding : kv::PageClass::kGlobal,
         kvElement(layer->element()), layer->page_bytes()});
  kv::Capacity capacity =
      kv::capacityFor(geometry, options.maxSequences, limits.contextTokens, limits.rows, options.holds);
  if (options.kvBytes) {
    G4_ASSIGN_OR_RETURN(capacity,
                        kv::capacityForBytes(geometry, options.kvBytes, limits.contextTokens, limits.rows));
  }
  capacity.poisonFreePages = options.poisonFreePages;
  G4_ASSIGN_OR_RETURN(cache, kv::KvCache::create(*device, std::move(geometry), capacity));
  return {};
}

Status Engine::Impl::makeDescriptors(const EngineOptions &options) {
  const fb::Facts &facts = *module->root().facts();
  const uint32_t pages = (limits.contextTokens + facts.page_tokens() - 1) / facts.page_tokens();
  const StepLimits most{limits.rows, limits.tailRows, limits.logitRows,  options.maxSequences,
                        pages,       limits.layers,   limits.expertsUsed};
  G4_ASSIGN_OR_RETURN(descriptors, Descriptors::create(*device, most, ropeAngles(facts.rope_sliding()),
                                                       ropeAngles(facts.rope_global())));
  return {};
}

Result<std::byte *> Engine::Impl::resolve(const fb::Binding &binding) const {
  switch (binding.kind()) {
  case fb::BindingKind::arena:
    return arena->data() + program->buffers()->Get(binding.index())->offset() + binding.offset();
  case fb::BindingKind::weight:
    return weights.data(binding.index()) + binding.offset();
  case fb::BindingKind::kv:
    return cache->layerData(binding.index()) + binding.offset();
  case fb::BindingKind::descriptor:
    return descriptors.slot(binding.index()) + binding.offset();
  }
  return dataLoss("a dispatch binds something unknown");
}

Status Engine::Impl::bindProgram() {
  G4_ASSIGN_OR_RETURN(arena, device->allocate(program->arena_bytes(), device::Pages::kSmall));
  size_t total = 0;
  for (const fb::Dispatch *dispatch : *program->dispatches())
    total += dispatch->bindings()->size();
  addresses.reserve(total); // spans point into it
  for (const fb::Dispatch *dispatch : *program->dispatches()) {
    const size_t first = addresses.size();
    for (const fb::Binding *binding : *dispatch->bindings()) {
      G4_ASSIGN_OR_RETURN(std::byte * address, resolve(*binding));
      addresses.push_back(address);
    }
    launches.push_back(
        {dispatch->kernel(), std::span(addresses).subspan(first), 0, dispatch->barrier_before()});
  }
  for (const fb::Output *output : *program->outputs()) {
    if (output->name()->string_view() == "logits")
      logits = output;
    if (output->name()->string_view() == "hidden")
      hidden = output;
    if (output->name()->string_view() == "logit_maxima")
      maxima = output;
  }
  if (!logits || !hidden)
    return dataLoss("program 'step' lacks the output 'logits' or 'hidden'");
  const auto fits = [&](const fb::Output *output, uint32_t columns) { // output spans have no gaps
    return output->columns() == columns &&
           program->buffers()->Get(output->buffer())->row_bytes() == uint64_t(columns) * sizeof(float);
  };
  if (maxima)
    tile = limits.vocabulary / maxima->columns();
  if (!fits(logits, limits.vocabulary) || !fits(hidden, limits.hidden) ||
      (maxima && (limits.vocabulary % maxima->columns() || !fits(maxima, maxima->columns()))))
    return dataLoss("program 'step' has outputs of the wrong width");
  return {};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const module::Module> module,
                                               const EngineOptions &options) {
  auto impl = std::make_unique<Impl>();
  impl->module = std::move(module);
  const fb::Module &header = impl->module->root();
  const fb::Facts &facts = *header.facts();
  impl->program = impl->module->findProgram("step");
  if (!impl->program)
    return dataLoss("the artifact has no program 'step'");
  if (options.maxSequences == 0)
    return invalidArgument("an engine for no sequences");
  const fb::Program &program = *impl->program;
  impl->limits = {program.max_rows(),       program.max_tail_rows(),
                  program.max_logit_rows(), options.contextTokens ? options.contextTokens : facts.context(),
                  facts.vocabulary(),       facts.hidden(),
                  facts.layers()->size(),   facts.experts_used()};
  if (impl->limits.contextTokens == 0 || impl->limits.contextTokens > facts.context())
    return invalidArgument("a context of " + std::to_string(impl->limits.contextTokens) +
                           " positions, but the model has " + std::to_string(facts.context()));
  impl->maxSequences = options.maxSequences;
  impl->device = device::createCpuDevice({options.threads, {}});
  G4_RETURN_IF_ERROR(impl->loadCode(options));
  G4_ASSIGN_OR_RETURN(impl->weights, Weights::create(*impl->device, *impl->module, options.weightSeed));
  G4_RETURN_IF_ERROR(impl->makeCache(options));
  G4_RETURN_IF_ERROR(impl->makeDescriptors(options));
  G4_RETURN_IF_ERROR(impl->bindProgram());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

//===- Running a step
//-------------------------------------------------------------------------------------===//

/// Checks every rule of Step and collects the rows of each sequence.
Status Engine::Impl::check(const Step &step) {
  const size_t rows = step.tokens.size();
  if (rows == 0)
    return invalidArgument("a step without rows");
  if (step.sequences.size() != rows || step.positions.size() != rows)
    return invalidArgument("a step whose tokens, sequences and positions are not equally many");
  G4_RETURN_IF_ERROR(checkCount("rows", rows, limits.rows));
  G4_RETURN_IF_ERROR(checkCount("tail rows", step.tailRows.size(), limits.tailRows));
  G4_RETURN_IF_ERROR(checkCount("logit rows", step.logitRows.size(), limits.logitRows));
  G4_RETURN_IF_ERROR(checkSubset("tail", step.tailRows, rows));
  G4_RETURN_IF_ERROR(checkSubset("logit", step.logitRows, rows));
  if (!std::includes(step.tailRows.begin(), step.tailRows.end(), step.logitRows.begin(),
                     step.logitRows.end()))
    return invalidArgument("logits are wanted of a row that is not a tail row");
  if (!step.forcedExperts.empty() &&
      step.forcedExperts.size() != uint64_t(limits.layers) * rows * limits.expertsUsed)
    return invalidArgument("forced experts must be [" + std::to_string(limits.layers) + " layers, " +
                           std::to_string(rows) + " rows, " + std::to_string(limits.expertsUsed) + " used]");
  for (uint32_t layer = 0; !step.forcedExperts.empty() && layer < limits.layers; ++layer) {
    const uint32_t experts = module->root().facts()->layers()->Get(layer)->experts();
    const size_t perLayer = rows * limits.expertsUsed;
    for (int32_t expert : step.forcedExperts.subspan(layer * perLayer, perLayer))
      if (experts && (expert < 0 || uint32_t(expert) >= experts))
        return invalidArgument("layer " + std::to_string(layer) + " has no expert " + std::to_string(expert));
  }

  stepRows.clear();
  for (size_t i = 0; i < rows; ++i) {
    if (step.tokens[i] < 0 || uint32_t(step.tokens[i]) >= limits.vocabulary)
      return rowError(i, "token " + std::to_string(step.tokens[i]) + " is not in a vocabulary of " +
                             std::to_string(limits.vocabulary));
    auto known = std::find_if(stepRows.begin(), stepRows.end(),
                              [&](const kv::Growth &entry) { return entry.seq == step.sequences[i]; });
    if (known == stepRows.end())
      known = stepRows.insert(known, {step.sequences[i], 0});
    G4_ASSIGN_OR_RETURN(const uint32_t length, cache->length(step.sequences[i]));
    const uint64_t next = uint64_t(length) + known->tokens++;
    if (step.positions[i] != next)
      return rowError(i, "position " + std::to_string(step.positions[i]) + ", but its sequence goes on at " +
                             std::to_string(next));
    if (next >= limits.contextTokens)
      return rowError(i, "position " + std::to_string(next) + " is past the context of " +
                             std::to_string(limits.contextTokens));
  }
  return checkCount("sequences", stepRows.size(), maxSequences);
}

uint32_t Engine::Impl::count(fb::RowSet set) const {
  switch (set) {
  case fb::RowSet::rows:
    return uint32_t(descriptors.count(module::kCountRows));
  case fb::RowSet::tail:
    return uint32_t(descriptors.count(module::kCountTail));
  case fb::RowSet::logits:
    return uint32_t(descriptors.count(module::kCountLogits));
  case fb::RowSet::single:
    break;
  }
  return 1;
}

Status Engine::Impl::report(const fb::Dispatch &dispatch, const TapFn &onTap) const {
  if (!dispatch.taps())
    return {};
  for (const fb::Tap *tap : *dispatch.taps()) {
    const fb::Binding *binding = dispatch.bindings()->Get(tap->binding());
    const fb::Buffer *buffer = program->buffers()->Get(binding->index());
    const TapView view{tap->name()->string_view(),
                       dispatch.layer(),
                       tap->element() == fb::Element::i32 ? TapView::Type::kI32 : TapView::Type::kF32,
                       TapView::Set(buffer->set()),
                       count(buffer->set()),
                       tap->columns(),
                       buffer->row_bytes(),
                       arena->data() + buffer->offset() + binding->offset()};
    if (view.rows == 0)
      continue;
    const uint64_t end =
        uint64_t(view.data - arena->data()) + (view.rows - 1) * view.rowBytes + 4 * tap->columns();
    if (end > arena->size())
      return dataLoss("tap '" + std::string(view.name) + "' reaches beyond the arena");
    G4_RETURN_IF_ERROR(onTap(view));
  }
  return {};
}

Status Engine::Impl::launch(const TapFn &onTap) {
  const auto &dispatches = *program->dispatches();
  for (uint32_t i = 0; i < dispatches.size(); ++i) {
    const fb::Grid &grid = *dispatches[i]->grid();
    const int64_t rows = count(grid.set());
    launches[i].items = (rows + grid.rows_per_item() - 1) / grid.rows_per_item() * grid.items_per_block();
    counters.macs += dispatches[i]->macs_per_row() * uint64_t(rows);
  }
  const device::RunCounters before = device->counters();
  if (!onTap) {
    G4_RETURN_IF_ERROR(device->run(*code, launches));
  } else {
    for (uint32_t i = 0; i < dispatches.size(); ++i) {
      G4_RETURN_IF_ERROR(device->run(*code, std::span(launches).subspan(i, 1)));
      G4_RETURN_IF_ERROR(report(*dispatches[i], onTap));
    }
  }
  counters.dispatches += device->counters().launches - before.launches;
  counters.barriers += device->counters().barriers - before.barriers;
  return {};
}

std::span<const float> Engine::Impl::output(const fb::Output *output, uint32_t rows) const {
  const fb::Buffer *buffer = program->buffers()->Get(output->buffer());
  return {reinterpret_cast<const float *>(arena->data() + buffer->offset()),
          size_t(rows) * output->columns()};
}

Result<StepOutput> Engine::run(const Step &step, const TapFn &onTap) {
  Impl &impl = *impl_;
  G4_RETURN_IF_ERROR(impl.check(step));
  G4_RETURN_IF_ERROR(impl.cache->reserve(impl.stepRows));
  impl.descriptors.bind(step, *impl.cache);
  if (Status status = impl.launch(onTap); !status.ok()) {
    for (const auto &[seq, rows] : impl.stepRows)
      G4_RETURN_IF_ERROR(impl.cache->truncate(seq, *impl.cache->length(seq)));
    return status;
  }
  for (const auto &[seq, rows] : impl.stepRows)
    G4_RETURN_IF_ERROR(impl.cache->advance(seq, rows));
  impl.counters.steps += 1;
  impl.counters.rows += step.tokens.size();
  impl.counters.tailRows += step.tailRows.size();
  impl.counters.logitRows += step.logitRows.size();
  const auto logitRows = uint32_t(step.logitRows.size());
  return StepOutput{impl.output(impl.logits, logitRows),
                    impl.output(impl.hidden, uint32_t(step.tailRows.size())),
                    impl.maxima ? impl.output(impl.maxima, logitRows) : std::span<const float>(), impl.tile};
}

const EngineLimits &Engine::limits() const { return impl_->limits; }
const module::Module &Engine::module() const { return *impl_->module; }
const std::string &Engine::variant() const { return impl_->variant; }
unsigned Engine::threadCount() const { return impl_->device->threadCount(); }
kv::SeqId Engine::openSequence() { return impl_->cache->open(); }
Status Engine::closeSequence(kv::SeqId seq) { return impl_->cache->close(seq); }
Result<uint32_t> Engine::length(kv::SeqId seq) const { return impl_->cache->length(seq); }
Status Engine::truncate(kv::SeqId seq, uint32_t length) { return impl_->cache->truncate(seq, length); }
Status Engine::hold(kv::SeqId seq) { return impl_->cache->hold(seq); }
void Engine::trace(std::vector<device::LaunchSpan> *spans) { impl_->device->trace(spans); }
const kv::KvCache &Engine::cache() const { return *impl_->cache; }
kv::KvCache &Engine::cache() { return *impl_->cache; }
const StepCounters &Engine::counters() const { return impl_->counters; }

} // namespace g4::engine
