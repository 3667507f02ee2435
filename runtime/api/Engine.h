/// Many requests to one model at once: they share steps, pages and prefixes.
///
///   auto engine = g4::api::Engine::open("model.g4m", {});
///   g4::api::Request request;
///   request.ids = *(*engine)->model().chatPrompt({.messages = {{"user", "Why is the sky blue?"}}});
///   auto stream = (*engine)->submit(std::move(request));
///   while (auto event = (*stream)->next())
///     if (auto *token = std::get_if<g4::api::TokenEvent>(&*event))
///       std::cout << token->text;
///
/// (with each Result checked).
#pragma once

#include "runtime/api/g4.h"

#include <array>
#include <chrono>
#include <variant>

namespace g4::api {

struct EngineOptions {
  unsigned threads = 0;                    ///< 0: one per usable physical core
  std::string variant = {};                ///< code variant by name; empty: the best that runs here
  std::optional<uint64_t> weightSeed = {}; ///< makes weights up; only for an artifact compiled without
  uint32_t contextTokens = 0;              ///< most positions of a sequence; 0: the model's context
  uint32_t maxSequences = 16;              ///< answers that run at the same time; more wait
  /// K/V of running answers and the prefix cache together; 0: a quarter of the memory that this process may have.
  uint64_t kvBytes = 0;
  uint64_t cacheBytes = std::numeric_limits<uint64_t>::max(); ///< of it, most that the prefix cache may hold
  uint32_t maxWaiting = 1024;                                 ///< more are refused
  /// Most rows of prompts in a step that generates too: what a prompt may cost those who are answered meanwhile.
  uint32_t prefillRows = 64;
  std::string record = {}; ///< a file for replay(): what came, when, and what was answered
};

struct TokenChance {
  int32_t id;
  float logprob;
  std::string bytes; ///< the token's text; not always UTF-8
};

/// A token that was chosen, or one of the prompt, or text that was held back.
struct TokenEvent {
  uint32_t answer;       ///< 0 to Request::answers - 1
  int32_t id;            ///< -1: only text
  bool ofPrompt = false; ///< with Request::promptLogprobs, before all others
  Part part = Part::kAnswer;
  std::string text = {};                   ///< whole UTF-8 characters that became certain; may be empty
  std::optional<TokenChance> chance = {};  ///< with Request::logprobs; never of a prompt's first token
  std::vector<TokenChance> mostProbable = {}; ///< best first
};

/// Seconds.
struct Timings {
  double waiting = 0;    ///< until it ran first
  double firstToken = 0; ///< from submit() to its first token; 0: there was none
  double total = 0;      ///< from submit() to its end
};

/// The end of one answer.
struct FinishEvent {
  uint32_t answer;
  Finish finish = Finish::kCancelled;
  Status status = {};        ///< not ok: it failed
  uint32_t promptTokens = 0; ///< of each answer the same
  uint32_t cachedTokens = 0; ///< of them, found in the prefix cache
  uint32_t tokens = 0;       ///< chosen, a stop token included
  Timings timings = {};
};

using Event = std::variant<TokenEvent, FinishEvent>;

struct Request {
  std::vector<int32_t> ids; ///< the prompt
  sched::DecodeOptions decode = {};
  uint32_t answers = 1;                  ///< answer i draws with the seed + i
  int priority = 0;                      ///< higher first
  std::optional<uint32_t> logprobs = {}; ///< the chance of each token, and so many of the most probable ones
  bool promptLogprobs = false;           ///< the same for the tokens of the prompt, once, with answer 0
  /// When a stream that had no events gets some. Called on the engine's thread: must not block, nor call the engine. May
  /// be called once more while the stream is destroyed.
  std::function<void()> onReady = nullptr;
};

/// What comes of one request. Threads: any. It may outlive its engine. Destroying it cancels.
class Stream {
public:
  ~Stream();
  /// Waits for an event. None: all answers have ended.
  std::optional<Event> next();
  /// The events that are there now.
  std::vector<Event> take();
  /// All answers have ended and their events were taken.
  bool finished() const;
  /// Answers end at the next step, with Finish::kCancelled.
  void cancel();

  struct State;
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}

private:
  std::shared_ptr<State> state_;
};

/// Steps by their time: bound i holds those of at most kStepBounds[i] seconds, the last one all.
inline constexpr std::array<double, 10> kStepBounds{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};

struct EngineStats {
  uint64_t submitted, finished, cancelled, failed, preempted; ///< answers
  uint64_t promptTokens, cachedTokens, computedTokens, answerTokens;
  uint32_t waiting, running;
  std::array<uint32_t, 2> pages, usedPages; ///< of sliding and of global layers; used: by answers, by the cache, or both
  uint64_t kvBytes, usedKvBytes, cacheBytes;
  uint64_t steps;
  double stepSeconds;
  std::array<uint64_t, kStepBounds.size() + 1> stepCounts; ///< of each bound alone
};

/// One thread runs the model; all calls are answered at once. Threads: any.
class Engine {
public:
  /// Errors: those of Model::open, and kInvalidArgument (limits that do not fit the model or each other).
  static Result<std::unique_ptr<Engine>> open(const std::string &path, const EngineOptions &options);
  /// Answers that are not done end with Finish::kCancelled.
  ~Engine();

  /// Errors: kInvalidArgument (Scheduler::submit), kResourceExhausted (too many wait), kUnavailable (draining).
  Result<std::shared_ptr<Stream>> submit(Request request);
  /// Takes no more requests, and waits for those that it has, but no longer than `most`. False: some are not done.
  bool drain(std::chrono::milliseconds most);

  EngineStats stats() const;
  /// Its const functions only: they may be called while the engine runs.
  const Model &model() const;
  /// What memory is for, a line each.
  std::vector<std::string> memoryPlan() const;

private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Does again what a record of EngineOptions::record says, and compares. Errors: kDataLoss (the record is damaged, or of
/// another artifact; or an answer's token differs: the message says which).
struct ReplayResult {
  uint64_t answers, tokens, steps;
};
Result<ReplayResult> replay(const std::string &path, const std::string &record, const EngineOptions &options);

} // namespace g4::api
