/// Answers many prompts with one model: what waits, what runs, and what goes into each step.
///
/// A step has one row of every sequence that is generating, and rows of prompts up to a limit, so that running
/// answers keep their pace whatever arrives. Prompts take turns. Where pages run out, first the prefix cache
/// gives some, then the running answer that ranks last, which is computed again later. Rows are independent, so
/// none of this changes an answer.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/kv/PrefixTree.h"
#include "runtime/sched/Decoder.h"
#include "runtime/text/Chances.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace g4::sched {

struct SchedulerOptions {
  uint32_t maxSequences = 1; ///< running at the same time: at most the engine's, and its logit rows
  /// Most rows of prompts in a step that generates too; 0: as many as the program holds.
  uint32_t prefillRows = 0;
  uint64_t cacheBytes = std::numeric_limits<uint64_t>::max(); ///< most K/V that the prefix cache may keep
};

/// What an answer is called; in the order of submission.
enum class AnswerId : uint64_t {};

/// One token of an answer, or of its prompt.
struct AnswerToken {
  AnswerId answer;
  Decoder::Token token;
  bool ofPrompt = false;
  std::optional<text::Chances> chances = {}; ///< where they were asked for; never of a prompt's first token
};

struct AnswerEnd {
  AnswerId answer = {};
  Finish finish = Finish::kCancelled;
  Status status = {};                           ///< not ok: the answer failed
  std::vector<text::AnswerParts::Piece> rest = {}; ///< text that was held back
  uint32_t promptTokens = 0;
  uint32_t cachedTokens = 0; ///< of them, when it first ran: not computed but found in the prefix cache
  uint32_t tokens = 0;       ///< chosen, a stop token included
};

struct AnswerRequest {
  std::vector<int32_t> ids; ///< the prompt
  DecodeOptions decode = {};
  int priority = 0;                      ///< higher ranks first; of equal ones, who came first
  std::optional<uint32_t> logprobs = {}; ///< chances of each token, and of so many most probable ones
  bool promptLogprobs = false;           ///< of the prompt's too, which is then computed whole
  /// Called from step(), cancel() and endAll(), and must not call the scheduler. onBegin comes before the first step with
  /// rows of the answer, onEnd once, last.
  std::function<void()> onBegin = nullptr;
  std::function<void(AnswerToken token)> onToken = nullptr;
  std::function<void(AnswerEnd end)> onEnd = nullptr;
};

/// What was done so far, and what is there now.
struct SchedulerStats {
  uint64_t submitted = 0, finished = 0, cancelled = 0, failed = 0, preempted = 0;
  uint64_t promptTokens = 0;   ///< of answers that have begun to run
  uint64_t cachedTokens = 0;   ///< of them
  uint64_t computedTokens = 0; ///< rows of prompts and of answers that were preempted
  uint64_t answerTokens = 0;
  uint64_t steps = 0;
  uint32_t waiting = 0, running = 0;
};

/// Everything that it does follows from its options and the calls of submit, cancel and step, in their order: no
/// clock, no other threads. So a log of these calls can be replayed.
/// Threads: one at a time.
class Scheduler {
public:
  /// Uses sequences and pages of `engine`, which must have none open; `rules` and `engine` must outlive it.
  /// Errors: kInvalidArgument.
  static Result<std::unique_ptr<Scheduler>> create(engine::Engine &engine, const TokenRules &rules,
                                                   const SchedulerOptions &options);
  ~Scheduler();

  /// Whether it can be answered. Errors: kInvalidArgument (an empty prompt, one that the context or the pages cannot
  /// hold, an id outside the vocabulary, an option out of its range). Threads: any, at any time.
  Status check(const AnswerRequest &request) const;
  /// Errors: as check().
  Result<AnswerId> submit(AnswerRequest request);
  /// Ends an answer, wherever it is; one that has ended already stays as it is.
  void cancel(AnswerId id);
  /// Ends all that there are.
  void endAll(Finish finish, const Status &status);
  /// Something waits or runs.
  bool busy() const { return !waiting_.empty() || !running_.empty(); }
  /// One step of the model. Errors: what the engine failed with; all answers of the step have failed then.
  Status step();

  SchedulerStats stats() const;
  const kv::PrefixTree &cache() const { return *tree_; }

private:
  struct Answer;
  struct Planned;
  using Answers = std::vector<std::unique_ptr<Answer>>;

  Scheduler(engine::Engine &engine, const TokenRules &rules, const SchedulerOptions &options);
  void admit();
  bool open(Answer &answer);
  bool waitsForPrefix(const Answer &answer);
  void plan();
  bool reserve(Answer &answer, uint32_t rows);
  void preempt(Answer &answer);
  void deliver(Answer &answer, uint32_t rows, const engine::StepOutput &output, size_t firstLogit);
  void deliverPrompt(Answer &answer, uint32_t rows, const engine::StepOutput &output, size_t firstLogit);
  void remember(Answer &answer);
  void end(Answer &answer, Finish finish, Status status = {});
  void dropEnded();

  engine::Engine &engine_;
  const TokenRules &rules_;
  SchedulerOptions options_;
  std::unique_ptr<kv::PrefixTree> tree_;
  Answers waiting_; ///< best rank first
  Answers running_; ///< in the order of admission
  std::vector<Planned> plan_;
  uint64_t nextId_ = 1, turn_ = 1;
  SchedulerStats stats_;
  // Rows of the present step.
  std::vector<int32_t> tokens_;
  std::vector<kv::SeqId> sequences_;
  std::vector<uint32_t> positions_, logitRows_;
};

} // namespace g4::sched
