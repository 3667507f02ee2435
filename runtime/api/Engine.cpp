#include "runtime/api/Engine.h"
#include "runtime/api/Impl.h"
#include "runtime/api/Mailbox.h"
#include "runtime/api/Record.h"
#include "runtime/base/Guard.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

namespace g4::api {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

} // namespace

//===- Streams --------------------------------------------------------------------------------------===//

Stream::~Stream() {
  {
    std::lock_guard lock(state_->mutex);
    state_->onReady = nullptr;
  }
  cancel();
}

std::optional<Event> Stream::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->events.empty() || state_->unfinished == 0; });
  if (state_->events.empty())
    return {};
  Event event = std::move(state_->events.front());
  state_->events.pop_front();
  return event;
}

std::vector<Event> Stream::take() {
  std::lock_guard lock(state_->mutex);
  std::vector<Event> events(std::move_iterator(state_->events.begin()), std::move_iterator(state_->events.end()));
  state_->events.clear();
  return events;
}

bool Stream::finished() const {
  std::lock_guard lock(state_->mutex);
  return state_->events.empty() && state_->unfinished == 0;
}

void Stream::cancel() { state_->cancel(); }

//===- The engine's thread --------------------------------------------------------------------------===//

struct Engine::Impl {
  std::unique_ptr<Model> model;
  EngineOptions options;
  std::unique_ptr<sched::Scheduler> scheduler;
  std::unique_ptr<Recorder> recorder;
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  // Of the engine's thread only:
  std::multimap<const Stream::State *, sched::AnswerId> running;
  /// What a step gave. Streams get it once the statistics count it: who has seen an answer's end finds it there.
  std::vector<std::pair<std::shared_ptr<Stream::State>, Event>> outbox;

  mutable std::mutex statsMutex;
  EngineStats stats{};
  std::thread thread;

  ~Impl();
  Status make(const std::string &path);
  void loop();
  void obey(std::vector<Command> commands);
  void submit(Command command);
  void cancel(const Stream::State *stream);
  void step();
  void publish();
  void send();
  sched::AnswerRequest answerOf(const Request &request, uint32_t index, const std::shared_ptr<Stream::State> &stream);
  std::optional<TokenChance> nameOf(const text::Chance &chance) const;
};

Status Engine::Impl::make(const std::string &path) {
  if (options.kvBytes == 0)
    options.kvBytes = device::usableMemory() / 4;
  ModelOptions modelOptions;
  modelOptions.threads = options.threads;
  modelOptions.variant = options.variant;
  modelOptions.contextTokens = options.contextTokens;
  modelOptions.maxSessions = options.maxSequences;
  modelOptions.weightSeed = options.weightSeed;
  modelOptions.kvBytes = options.kvBytes;
  G4_ASSIGN_OR_RETURN(model, Model::open(path, modelOptions));
  Model::Impl &impl = model->impl();
  const sched::SchedulerOptions schedulerOptions{options.maxSequences, options.prefillRows, options.cacheBytes};
  G4_ASSIGN_OR_RETURN(scheduler, sched::Scheduler::create(*impl.engine, impl.rules, schedulerOptions));
  if (!options.record.empty()) {
    G4_ASSIGN_OR_RETURN(recorder,
                        Recorder::create(options.record, {impl.module->hash(), model->variant(), model->contextTokens(),
                                                          options.kvBytes, schedulerOptions}));
  }
  publish();
  thread = std::thread([this] { loop(); });
  return {};
}

Engine::Impl::~Impl() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mailbox->mutex);
    mailbox->stopping = mailbox->draining = true;
  }
  mailbox->filled.notify_all();
  thread.join();
}

void Engine::Impl::loop() {
  for (;;) {
    std::vector<Command> commands;
    bool stopping;
    {
      std::unique_lock lock(mailbox->mutex);
      mailbox->filled.wait(lock, [&] { return !mailbox->commands.empty() || mailbox->stopping || scheduler->busy(); });
      commands.swap(mailbox->commands);
      stopping = mailbox->stopping;
    }
    obey(std::move(commands));
    if (stopping)
      scheduler->endAll(Finish::kCancelled, {});
    else if (scheduler->busy())
      step();
    publish();
    send();
    if (stopping)
      return;
  }
}

void Engine::Impl::obey(std::vector<Command> commands) {
  for (Command &command : commands)
    command.submit ? submit(std::move(command)) : cancel(command.stream.get());
}

void Engine::Impl::submit(Command command) {
  const uint64_t now = scheduler->stats().steps;
  if (recorder)
    recorder->submit(now, *command.submit);
  const auto onEnd = command.submit->onEnd; // for an answer that never was
  auto id = guarded([&] { return scheduler->submit(*std::move(command.submit)); });
  if (id.ok())
    running.emplace(command.stream.get(), *id);
  else
    onEnd({.status = id.status()});
}

void Engine::Impl::cancel(const Stream::State *stream) {
  std::vector<sched::AnswerId> ids;
  for (auto [at, end] = running.equal_range(stream); at != end; ++at)
    ids.push_back(at->second);
  for (sched::AnswerId id : ids) {
    if (recorder)
      recorder->cancel(scheduler->stats().steps, id);
    scheduler->cancel(id);
  }
}

void Engine::Impl::step() {
  const auto begin = Clock::now();
  const uint64_t before = scheduler->stats().steps;
  if (Status status = guarded([&] { return scheduler->step(); }); !status.ok())
    scheduler->endAll(Finish::kCancelled, status); // a step's memory ran out, or the model failed
  if (recorder)
    recorder->step(before);
  if (scheduler->stats().steps == before)
    return;
  const double seconds = secondsSince(begin);
  std::lock_guard lock(statsMutex);
  stats.stepSeconds += seconds;
  ++stats.stepCounts[size_t(std::lower_bound(kStepBounds.begin(), kStepBounds.end(), seconds) - kStepBounds.begin())];
}

void Engine::Impl::publish() {
  const sched::SchedulerStats s = scheduler->stats();
  const kv::KvCache &cache = model->impl().engine->cache();
  std::lock_guard lock(statsMutex);
  stats.submitted = s.submitted;
  stats.finished = s.finished;
  stats.cancelled = s.cancelled;
  stats.failed = s.failed;
  stats.preempted = s.preempted;
  stats.promptTokens = s.promptTokens;
  stats.cachedTokens = s.cachedTokens;
  stats.computedTokens = s.computedTokens;
  stats.answerTokens = s.answerTokens;
  stats.waiting = s.waiting;
  stats.running = s.running;
  stats.steps = s.steps;
  stats.kvBytes = stats.usedKvBytes = 0;
  for (const auto pageClass : {kv::PageClass::kSliding, kv::PageClass::kGlobal}) {
    const kv::PagePool &pool = cache.pool(pageClass);
    stats.pages[size_t(pageClass)] = pool.capacity();
    stats.usedPages[size_t(pageClass)] = pool.used();
    stats.kvBytes += pool.capacity() * cache.pageBytes(pageClass);
    stats.usedKvBytes += cache.usedBytes(pageClass);
  }
  stats.cacheBytes = scheduler->cache().stats().bytes;
}

void Engine::Impl::send() {
  const auto ends = uint32_t(std::ranges::count_if(
      outbox, [](const auto &entry) { return std::holds_alternative<FinishEvent>(entry.second); }));
  if (ends > 0) { // before the streams tell of it: then there is room for another request
    std::lock_guard lock(mailbox->mutex);
    mailbox->unfinished -= ends;
  }
  for (auto &[stream, event] : outbox)
    stream->push(std::move(event));
  outbox.clear();
  if (ends > 0)
    mailbox->idle.notify_all();
}

std::optional<TokenChance> Engine::Impl::nameOf(const text::Chance &chance) const {
  const auto &tokenizer = model->impl().rules.tokenizer;
  return TokenChance{chance.id, chance.logprob,
                     tokenizer ? tokenizer->decodeBytes(std::span(&chance.id, 1), /*skipSpecial=*/false) : std::string()};
}

sched::AnswerRequest Engine::Impl::answerOf(const Request &request, uint32_t index,
                                            const std::shared_ptr<Stream::State> &stream) {
  struct Times {
    Clock::time_point submitted = Clock::now();
    Timings timings = {};
  };
  auto times = std::make_shared<Times>();
  sched::AnswerRequest answer;
  answer.ids = request.ids;
  answer.decode = request.decode;
  answer.decode.sampling.seed += index;
  answer.priority = request.priority;
  answer.logprobs = request.logprobs;
  answer.promptLogprobs = request.promptLogprobs && index == 0;
  answer.onBegin = [times] { times->timings.waiting = secondsSince(times->submitted); };
  answer.onToken = [this, index, stream, times](sched::AnswerToken token) {
    if (recorder && !token.ofPrompt)
      recorder->token(token.answer, token.token.id);
    if (!token.ofPrompt && times->timings.firstToken == 0)
      times->timings.firstToken = secondsSince(times->submitted);
    TokenEvent event{index, token.token.id, token.ofPrompt, token.token.part, std::move(token.token.text)};
    if (token.chances) {
      event.chance = nameOf(token.chances->token);
      for (const text::Chance &chance : token.chances->top)
        event.mostProbable.push_back(*nameOf(chance));
    }
    outbox.emplace_back(stream, std::move(event));
  };
  answer.onEnd = [this, index, stream, times](sched::AnswerEnd end) {
    if (recorder)
      recorder->end(end.answer, end.finish);
    for (text::AnswerParts::Piece &piece : end.rest)
      if (!piece.text.empty())
        outbox.emplace_back(stream, TokenEvent{index, -1, false, piece.part, std::move(piece.text)});
    times->timings.total = secondsSince(times->submitted);
    for (auto [at, last] = running.equal_range(stream.get()); at != last; ++at)
      if (at->second == end.answer) {
        running.erase(at);
        break;
      }
    outbox.emplace_back(stream, FinishEvent{index, end.finish, std::move(end.status), end.promptTokens, end.cachedTokens, end.tokens,
                             times->timings});
  };
  return answer;
}

//===- For callers ----------------------------------------------------------------------------------===//

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const std::string &path, const EngineOptions &options) {
  return guarded([&]() -> Result<std::unique_ptr<Engine>> {
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    G4_RETURN_IF_ERROR(impl->make(path));
    return std::unique_ptr<Engine>(new Engine(std::move(impl)));
  });
}

Result<std::shared_ptr<Stream>> Engine::submit(Request request) {
  return guarded([&]() -> Result<std::shared_ptr<Stream>> {
    if (request.answers == 0)
      return invalidArgument("no answers are wanted");
    Mailbox &mailbox = *impl_->mailbox;
    const auto state = std::make_shared<Stream::State>();
    std::vector<Command> commands;
    for (uint32_t i = 0; i < request.answers; ++i)
      commands.push_back({impl_->answerOf(request, i, state), state});
    G4_RETURN_IF_ERROR(impl_->scheduler->check(*commands[0].submit));
    state->unfinished = request.answers;
    state->onReady = std::move(request.onReady);
    state->cancel = [box = std::weak_ptr(impl_->mailbox), stream = std::weak_ptr(state)] {
      const auto there = box.lock();
      const auto held = stream.lock();
      if (!there || !held)
        return;
      {
        std::lock_guard lock(there->mutex);
        there->commands.push_back({{}, held});
      }
      there->filled.notify_all();
    };
    {
      std::lock_guard lock(mailbox.mutex);
      if (mailbox.draining)
        return Status{Code::kUnavailable, "no more requests are taken: shutting down"};
      const uint64_t most = uint64_t(impl_->options.maxSequences) + impl_->options.maxWaiting;
      if (mailbox.unfinished + uint64_t(request.answers) > most)
        return resourceExhausted("too many requests: " + std::to_string(mailbox.unfinished) + " answers run or wait");
      mailbox.unfinished += request.answers;
      std::move(commands.begin(), commands.end(), std::back_inserter(mailbox.commands));
    }
    mailbox.filled.notify_all();
    return std::make_shared<Stream>(state);
  });
}

bool Engine::drain(std::chrono::milliseconds most) {
  Mailbox &mailbox = *impl_->mailbox;
  std::unique_lock lock(mailbox.mutex);
  mailbox.draining = true;
  return mailbox.idle.wait_for(lock, most, [&] { return mailbox.unfinished == 0; });
}

EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->statsMutex);
  return impl_->stats;
}

const Model &Engine::model() const { return *impl_->model; }

std::vector<std::string> Engine::memoryPlan() const {
  const Model::Impl &model = impl_->model->impl();
  const kv::KvCache &cache = model.engine->cache();
  const auto line = [](const char *what, uint64_t bytes, const std::string &more) {
    char text[128];
    std::snprintf(text, sizeof text, "%-10s %9.1f MiB  %s", what, double(bytes) / (1 << 20), more.c_str());
    return std::string(text);
  };
  uint64_t weights = 0;
  for (const auto *segment : *model.module->root().segments())
    weights += segment->kind() == module::fb::SegmentKind::weights ? segment->size() : 0;
  std::vector<std::string> lines{line("weights", weights, "read from the file as they are used"),
                                 line("workspace", model.module->findProgram("step")->arena_bytes(), "")};
  for (const auto pageClass : {kv::PageClass::kSliding, kv::PageClass::kGlobal}) {
    const uint32_t pages = cache.pool(pageClass).capacity();
    if (const uint64_t bytes = cache.pageBytes(pageClass))
      lines.push_back(line(pageClass == kv::PageClass::kSliding ? "K/V near" : "K/V far", pages * bytes,
                           std::to_string(pages) + " pages of " + std::to_string(cache.geometry().pageTokens) +
                               " positions, for " + std::to_string(pages * uint64_t(cache.geometry().pageTokens)) +
                               " positions in " + (pageClass == kv::PageClass::kSliding ? "sliding" : "global") + " layers"));
  }
  return lines;
}

} // namespace g4::api
