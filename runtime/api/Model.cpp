#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"

#include <algorithm>

namespace g4::api {
namespace {

Status makeTokenSets(Model::Impl &impl) {
  const auto &facts = impl.facts();
  if (const auto tables = impl.module->tokenizer(); !tables.empty()) {
    G4_ASSIGN_OR_RETURN(impl.rules.tokenizer, text::Tokenizer::create(tables));
    if (impl.rules.tokenizer->size() != facts.vocabulary())
      return dataLoss("a tokenizer of " + std::to_string(impl.rules.tokenizer->size()) +
                      " tokens, but the model has " + std::to_string(facts.vocabulary()));
    impl.rules.turn = impl.rules.tokenizer->find("<|turn>");
    impl.rules.stopTokens = text::stopTokens(*impl.rules.tokenizer);
    impl.rules.sampleable = text::sampleableTokens(*impl.rules.tokenizer);
  } else {
    impl.rules.sampleable.emplace(facts.vocabulary(), true);
  }
  for (const auto *list : {facts.suppress_tokens(), facts.placeholder_tokens()})
    for (uint32_t i = 0; list && i < list->size(); ++i)
      impl.rules.sampleable->set(int32_t(list->Get(i)), false);
  return {};
}

Result<std::unique_ptr<Model::Impl>> openImpl(const std::string &path, const ModelOptions &options) {
  auto impl = std::make_unique<Model::Impl>();
  G4_ASSIGN_OR_RETURN(impl->module, module::Module::load(path));
  engine::EngineOptions engineOptions;
  engineOptions.threads = options.threads;
  engineOptions.variant = options.variant;
  engineOptions.maxSequences = impl->maxSessions = std::max(options.maxSessions, 1u);
  engineOptions.contextTokens = options.contextTokens;
  engineOptions.weightSeed = options.weightSeed;
  engineOptions.kvBytes = options.kvBytes;
  engineOptions.holds = impl->holds = options.holds;
  auto engine = engine::Engine::create(impl->module, engineOptions);
  if (!engine.ok())
    return Status(engine.status()).withContext(path);
  impl->engine = *std::move(engine);
  if (impl->facts().name())
    impl->name = impl->facts().name()->str();
  G4_RETURN_IF_ERROR(makeTokenSets(*impl).withContext(path));
  return impl;
}

} // namespace

Status Model::Impl::needTokenizer() const {
  if (rules.tokenizer)
    return {};
  return invalidArgument("the artifact has no tokenizer: only token ids can be given");
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::open(const std::string &path, const ModelOptions &options) {
  return guarded([&]() -> Result<std::unique_ptr<Model>> {
    G4_ASSIGN_OR_RETURN(auto impl, openImpl(path, options));
    return std::unique_ptr<Model>(new Model(std::move(impl)));
  });
}

const std::string &Model::name() const { return impl_->name; }
const std::string &Model::variant() const { return impl_->engine->variant(); }
unsigned Model::threads() const { return impl_->engine->threadCount(); }
uint32_t Model::vocabulary() const { return impl_->engine->limits().vocabulary; }
uint32_t Model::contextTokens() const { return impl_->engine->limits().contextTokens; }
uint32_t Model::layers() const { return impl_->engine->limits().layers; }
uint32_t Model::hiddenSize() const { return impl_->engine->limits().hidden; }
uint32_t Model::expertsUsed() const { return impl_->engine->limits().expertsUsed; }

SamplingOptions Model::defaultSampling() const {
  SamplingOptions options;
  if (const auto *sampling = impl_->facts().sampling()) {
    options.temperature = sampling->temperature();
    options.topK = sampling->top_k();
    options.topP = sampling->top_p();
    options.minP = sampling->min_p();
  }
  return options;
}

Counters Model::counters() const {
  const engine::StepCounters &c = impl_->engine->counters();
  return {c.steps, c.rows, c.tailRows, c.logitRows, c.dispatches, c.barriers, c.macs};
}

Result<std::vector<int32_t>> Model::tokenize(std::string_view text) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    G4_RETURN_IF_ERROR(impl_->needTokenizer());
    return impl_->rules.tokenizer->encodePrompt(text, text::Match::kSpecial);
  });
}

Result<std::vector<int32_t>> Model::tokenizePlain(std::string_view text) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    G4_RETURN_IF_ERROR(impl_->needTokenizer());
    return impl_->rules.tokenizer->encodePrompt(text, text::Match::kPlain);
  });
}

Result<std::unique_ptr<Session>> Model::newSession() {
  return guarded([&]() -> Result<std::unique_ptr<Session>> {
    if (impl_->openSessions >= impl_->maxSessions)
      return resourceExhausted(std::to_string(impl_->maxSessions) + " sessions are open already");
    auto session =
        std::make_unique<Session::Impl>(Session::Impl{*impl_, impl_->engine->openSequence(), {}, {}, {}});
    ++impl_->openSessions;
    return std::unique_ptr<Session>(new Session(std::move(session)));
  });
}

} // namespace g4::api
