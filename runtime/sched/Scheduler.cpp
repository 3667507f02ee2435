#include "runtime/sched/Scheduler.h"
#include "runtime/sched/LogitRow.h"

#include <algorithm>

namespace g4::sched {

/// An answer that waits or runs.
struct Scheduler::Answer {
  AnswerId id;
  AnswerRequest request;
  Decoder decoder;
  std::vector<int32_t> history; ///< the prompt and what was chosen
  size_t promptTokens;
  std::optional<text::Detokenizer> promptText = {}; ///< where the prompt's tokens are wanted
  size_t promptReported = 0;                        ///< tokens of the prompt that were
  std::optional<kv::SeqId> seq = {};                ///< while it runs
  size_t fed = 0;                                   ///< ids of the history in the K/V
  size_t branch = 0;        ///< where a step is to end because others go on differently from there; 0: nowhere
  size_t lastMessage = 0;   ///< the same because it may be edited: the last message of the prompt; 0: there is none
  uint64_t turn = 0;        ///< when rows of it last had a place in a step
  uint32_t cachedTokens = 0;
  bool begun = false;       ///< has run before
  bool ended = false;

  size_t left() const { return history.size() - fed; }
  /// Rows until a step is to end.
  size_t leftToPlace() const {
    size_t end = history.size();
    for (size_t place : {branch, lastMessage})
      if (place > fed)
        end = std::min(end, place);
    return end - fed;
  }
  bool isAtPlace() const { return left() == 0 || fed == branch || fed == lastMessage; }
  bool wantsPromptChances() const { return request.promptLogprobs && promptReported < promptTokens; }
  bool ranksBefore(const Answer &other) const {
    return request.priority != other.request.priority ? request.priority > other.request.priority : id < other.id;
  }
  /// The first `count` ids as the prefix tree knows them.
  std::vector<uint64_t> key(size_t count) const {
    std::vector<uint64_t> key(count);
    std::transform(history.begin(), history.begin() + ptrdiff_t(count), key.begin(),
                   [](int32_t id) { return uint64_t(uint32_t(id)); });
    return key;
  }
};

/// An answer's rows in the present step.
struct Scheduler::Planned {
  Answer *answer;
  uint32_t rows;
  size_t firstLogit = 0; ///< among the step's logit rows
};

namespace {

uint32_t ceilDiv(uint64_t a, uint32_t b) { return uint32_t((a + b - 1) / b); }

/// A message begins with <|turn>, its role, and the end of the line.
constexpr size_t kMessageHead = 3;

/// The page end before what the last message says, in a prompt that ends with the beginning of an answer. 0: there is
/// none, or it is one of the last two of the prompt, whose K/V are kept anyway.
size_t placeOfLastMessage(std::span<const int32_t> ids, std::optional<int32_t> turn, uint32_t page) {
  if (!turn)
    return 0;
  size_t at = ids.size();
  for (int messages = 0; messages < 2 && at > 0;)
    messages += ids[--at] == *turn;
  const size_t place = (at + kMessageHead) / page * page, last = (ids.size() - 1) / page * page;
  return place + page < last ? place : 0;
}

} // namespace

Scheduler::Scheduler(engine::Engine &engine, const TokenRules &rules, const SchedulerOptions &options)
    : engine_(engine), rules_(rules), options_(options),
      tree_(std::make_unique<kv::PrefixTree>(engine.cache(), options.cacheBytes)) {}

Scheduler::~Scheduler() {
  for (const auto &answer : running_)
    (void)engine_.closeSequence(*answer->seq); // it is open, so this cannot fail
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(engine::Engine &engine, const TokenRules &rules,
                                                     const SchedulerOptions &options) {
  const uint32_t most = std::min(engine.limits().logitRows, engine.limits().tailRows);
  if (options.maxSequences == 0 || options.maxSequences > most)
    return invalidArgument(std::to_string(options.maxSequences) + " sequences at once: 1 to " + std::to_string(most));
  std::unique_ptr<Scheduler> scheduler(new Scheduler(engine, rules, options));
  if (options.prefillRows == 0)
    scheduler->options_.prefillRows = engine.limits().rows;
  return scheduler;
}

//===- From outside ---------------------------------------------------------------------------------===//

Status Scheduler::check(const AnswerRequest &request) const {
  const engine::EngineLimits &limits = engine_.limits();
  if (request.ids.empty())
    return invalidArgument("an empty prompt");
  if (request.ids.size() > limits.contextTokens)
    return invalidArgument("a prompt of " + std::to_string(request.ids.size()) + " tokens, but the context is " +
                           std::to_string(limits.contextTokens));
  for (int32_t id : request.ids)
    if (id < 0 || uint32_t(id) >= limits.vocabulary)
      return invalidArgument("token " + std::to_string(id) + " is not in a vocabulary of " +
                             std::to_string(limits.vocabulary));
  const kv::KvCache &cache = engine_.cache();
  const uint32_t pages = ceilDiv(request.ids.size(), cache.geometry().pageTokens);
  if (cache.pageBytes(kv::PageClass::kGlobal) && pages > cache.pool(kv::PageClass::kGlobal).capacity())
    return invalidArgument("a prompt of " + std::to_string(request.ids.size()) + " tokens needs " +
                           std::to_string(pages) + " K/V pages, but there are " +
                           std::to_string(cache.pool(kv::PageClass::kGlobal).capacity()));
  for (const auto &[id, bias] : request.decode.sampling.logitBias)
    if (id < 0 || uint32_t(id) >= limits.vocabulary)
      return invalidArgument("a bias for token " + std::to_string(id) + ", which is not in a vocabulary of " +
                             std::to_string(limits.vocabulary));
  return Decoder::create(rules_, request.decode).status();
}

Result<AnswerId> Scheduler::submit(AnswerRequest request) {
  G4_RETURN_IF_ERROR(check(request));
  G4_ASSIGN_OR_RETURN(auto decoder, Decoder::create(rules_, request.decode));
  const AnswerId id{nextId_++};
  ++stats_.submitted;
  auto answer = std::make_unique<Answer>(
      Answer{id, std::move(request), std::move(decoder), {}, 0});
  answer->history = std::move(answer->request.ids);
  answer->promptTokens = answer->history.size();
  answer->lastMessage = placeOfLastMessage(answer->history, rules_.turn, engine_.cache().geometry().pageTokens);
  if (answer->request.promptLogprobs && rules_.tokenizer)
    answer->promptText.emplace(*rules_.tokenizer, text::Detokenizer::Options{});
  const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto &other) { return answer->ranksBefore(*other); });
  waiting_.insert(place, std::move(answer));
  return id;
}

void Scheduler::cancel(AnswerId id) {
  for (Answers *answers : {&waiting_, &running_})
    for (const auto &answer : *answers)
      if (answer->id == id)
        end(*answer, Finish::kCancelled);
  dropEnded();
}

void Scheduler::endAll(Finish finish, const Status &status) {
  for (Answers *answers : {&waiting_, &running_})
    for (const auto &answer : *answers)
      end(*answer, finish, status);
  dropEnded();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.waiting = uint32_t(waiting_.size());
  stats.running = uint32_t(running_.size());
  return stats;
}

//===- Who runs -------------------------------------------------------------------------------------===//

/// Whether to wait for a prompt that is being computed and has more in common with the answer's than the cache has.
/// It is then asked to end a step there, so that its K/V of that place can be kept.
bool Scheduler::waitsForPrefix(const Answer &answer) {
  if (options_.cacheBytes == 0 || answer.wantsPromptChances())
    return false;
  const uint32_t page = engine_.cache().geometry().pageTokens;
  bool waits = false;
  for (const auto &running : running_) {
    const size_t most = std::min(answer.history.size() - 1, running->history.size());
    if (running->left() <= 1 || most < page)
      continue;
    const auto end = running->history.begin() + ptrdiff_t(most);
    const size_t common =
        size_t(std::mismatch(running->history.begin(), end, answer.history.begin()).first - running->history.begin()) /
        page * page;
    if (common <= running->fed)
      continue;
    running->branch = running->branch > running->fed ? std::min(running->branch, common) : common;
    waits = true;
  }
  return waits;
}

/// Opens a sequence on what the cache has of the answer's history. False: there are no pages for the rest.
bool Scheduler::open(Answer &answer) {
  kv::KvCache &cache = engine_.cache();
  const uint32_t page = cache.geometry().pageTokens;
  uint32_t branch = 0;
  if (answer.wantsPromptChances()) {
    answer.seq = engine_.openSequence();
    answer.fed = 0;
  } else {
    const kv::PrefixTree::Opened opened = tree_->open(answer.key(answer.history.size()));
    answer.seq = opened.seq;
    answer.fed = opened.tokens;
    branch = opened.branch;
  }
  // Sliding pages come and go with the window: those of its first step are enough.
  const uint32_t global = ceilDiv(answer.history.size() + 1, page) - uint32_t(answer.fed / page);
  const uint32_t sliding = ceilDiv(std::min<uint64_t>(answer.left(), engine_.limits().rows), page) + 1;
  if (!tree_->makeRoom({sliding, global}) && !running_.empty()) {
    (void)engine_.closeSequence(*answer.seq);
    answer.seq.reset();
    answer.fed = 0;
    return false;
  }
  answer.branch = branch > answer.fed ? branch : 0;
  if (!std::exchange(answer.begun, true)) {
    answer.cachedTokens = uint32_t(answer.fed);
    stats_.promptTokens += answer.promptTokens;
    stats_.cachedTokens += answer.fed;
    if (answer.request.onBegin)
      answer.request.onBegin();
  }
  return true;
}

void Scheduler::admit() {
  for (size_t i = 0; i < waiting_.size() && running_.size() < options_.maxSequences;) {
    Answer &answer = *waiting_[i];
    if (answer.decoder.done() && !answer.wantsPromptChances()) { // nothing was asked for
      end(answer, answer.decoder.reason());
      ++i;
      continue;
    }
    if (waitsForPrefix(answer)) {
      ++i;
      continue;
    }
    if (!open(answer))
      break; // who ranks behind it may not take the pages that it waits for
    running_.push_back(std::move(waiting_[i]));
    waiting_.erase(waiting_.begin() + ptrdiff_t(i));
  }
  dropEnded();
}

/// Room for `rows` more positions. What the answer does not get from free pages and the cache it takes from those
/// that rank behind it. False: it is the last, and has given way or ended.
bool Scheduler::reserve(Answer &answer, uint32_t rows) {
  kv::KvCache &cache = engine_.cache();
  const uint32_t have = uint32_t(cache.blocks(*answer.seq, kv::PageClass::kGlobal).size());
  const uint32_t want = ceilDiv(answer.fed + rows, cache.geometry().pageTokens) - have;
  for (;;) {
    if (tree_->makeRoom({want, want})) {
      Status status = cache.reserve(*answer.seq, rows);
      if (!status.ok())
        end(answer, Finish::kCancelled, std::move(status));
      return !answer.ended;
    }
    Answer *last = &answer;
    for (const auto &running : running_)
      if (running->seq && last->ranksBefore(*running))
        last = running.get();
    const bool alone = std::none_of(running_.begin(), running_.end(),
                                    [&](const auto &other) { return other.get() != &answer && other->seq; });
    if (alone)
      end(answer, Finish::kContext);
    else
      preempt(*last);
    if (last == &answer)
      return false;
  }
}

/// Back to the queue, with what was chosen so far: it will be computed again.
void Scheduler::preempt(Answer &answer) {
  remember(answer);
  (void)engine_.closeSequence(*answer.seq);
  answer.seq.reset();
  answer.fed = 0;
  ++stats_.preempted;
}

//===- A step ---------------------------------------------------------------------------------------===//

void Scheduler::plan() {
  const engine::EngineLimits &limits = engine_.limits();
  std::vector<Answer *> generating, prompts;
  for (const auto &answer : running_)
    (answer->left() == 1 ? generating : prompts).push_back(answer.get());
  std::sort(prompts.begin(), prompts.end(), [](const Answer *a, const Answer *b) {
    return a->request.priority != b->request.priority ? a->request.priority > b->request.priority
           : a->turn != b->turn                         ? a->turn < b->turn
                                                        : a->id < b->id;
  });

  plan_.clear();
  uint32_t logits = std::min(limits.logitRows, limits.tailRows);
  const auto add = [&](Answer &answer, uint32_t rows) {
    if (!answer.seq || rows == 0 || !reserve(answer, rows))
      return uint32_t(0);
    answer.turn = turn_++;
    logits -= answer.wantsPromptChances() ? rows : rows == answer.left();
    plan_.push_back({&answer, rows});
    return rows;
  };
  for (Answer *answer : generating)
    add(*answer, 1);
  uint32_t room = limits.rows - uint32_t(plan_.size());
  if (!plan_.empty())
    room = std::min(room, options_.prefillRows);
  for (Answer *answer : prompts) {
    auto rows = uint32_t(std::min<size_t>(answer->leftToPlace(), room));
    if (answer->wantsPromptChances())
      rows = std::min(rows, logits);
    else if (rows == answer->left() && logits == 0)
      --rows; // its result finds no place in this step
    room -= add(*answer, rows);
  }

  // Later ones may have taken the pages of earlier ones.
  std::erase_if(plan_, [](const Planned &planned) { return !planned.answer->seq; });
  for (size_t i = 0; i < running_.size();) {
    if (running_[i]->seq || running_[i]->ended) {
      ++i;
      continue;
    }
    const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const auto &other) { return running_[i]->ranksBefore(*other); });
    waiting_.insert(place, std::move(running_[i]));
    running_.erase(running_.begin() + ptrdiff_t(i));
  }
  dropEnded();
}

Status Scheduler::step() {
  admit();
  plan();
  if (plan_.empty())
    return {};
  tokens_.clear(), sequences_.clear(), positions_.clear(), logitRows_.clear();
  for (Planned &planned : plan_) {
    const Answer &answer = *planned.answer;
    planned.firstLogit = logitRows_.size();
    for (uint32_t i = 0; i < planned.rows; ++i) {
      const size_t position = answer.fed + i;
      if (answer.wantsPromptChances() || position + 1 == answer.history.size())
        logitRows_.push_back(uint32_t(tokens_.size()));
      tokens_.push_back(answer.history[position]);
      sequences_.push_back(*answer.seq);
      positions_.push_back(uint32_t(position));
    }
  }
  engine::Step step;
  step.tokens = tokens_;
  step.sequences = sequences_;
  step.positions = positions_;
  step.tailRows = step.logitRows = logitRows_;
  auto output = engine_.run(step);
  ++stats_.steps;
  for (const Planned &planned : plan_) {
    if (output.ok())
      deliver(*planned.answer, planned.rows, *output, planned.firstLogit);
    else
      end(*planned.answer, Finish::kCancelled, output.status());
  }
  dropEnded();
  return output.status();
}

void Scheduler::deliver(Answer &answer, uint32_t rows, const engine::StepOutput &output, size_t firstLogit) {
  const bool ofPrompt = answer.left() > 1 || answer.fed < answer.promptTokens;
  const bool prompts = answer.wantsPromptChances();
  if (prompts)
    deliverPrompt(answer, rows, output, firstLogit);
  answer.fed += rows;
  stats_.computedTokens += ofPrompt ? rows : 0;
  if (ofPrompt && answer.isAtPlace())
    remember(answer);
  if (answer.left() > 0)
    return;
  if (answer.decoder.done()) // only the prompt's chances were asked for
    return end(answer, answer.decoder.reason());
  const size_t index = firstLogit + (prompts ? rows - 1 : 0);
  const text::LogitRow row = logitRow(output, index, engine_.limits().vocabulary);
  auto token = answer.decoder.next(row, answer.history);
  if (!token.ok())
    return end(answer, Finish::kCancelled, token.status());
  ++stats_.answerTokens;
  AnswerToken out{answer.id, *std::move(token)};
  if (answer.request.logprobs)
    out.chances = text::chancesOf(row.logits, out.token.id, *answer.request.logprobs);
  if (answer.request.onToken)
    answer.request.onToken(std::move(out));
  if (!answer.decoder.done() && answer.fed >= engine_.limits().contextTokens)
    answer.decoder.end(Finish::kContext);
  if (answer.decoder.done())
    end(answer, answer.decoder.reason());
}

/// The tokens of the prompt that follow the step's rows, with their chances.
void Scheduler::deliverPrompt(Answer &answer, uint32_t rows, const engine::StepOutput &output, size_t firstLogit) {
  const uint32_t top = answer.request.logprobs.value_or(0);
  const auto report = [&](std::optional<text::Chances> chances) {
    const int32_t id = answer.history[answer.promptReported++];
    std::string text = answer.promptText ? answer.promptText->push(id) : std::string();
    if (answer.request.onToken)
      answer.request.onToken({answer.id, {id, Part::kAnswer, std::move(text)}, true, std::move(chances)});
  };
  if (answer.promptReported == 0)
    report({});
  for (uint32_t i = 0; i < rows; ++i) {
    const size_t next = answer.fed + i + 1;
    if (next != answer.promptReported || next >= answer.promptTokens)
      continue; // was reported before the answer was preempted, or is not of the prompt
    const text::LogitRow row = logitRow(output, firstLogit + i, engine_.limits().vocabulary);
    report(text::chancesOf(row.logits, answer.history[next], top));
  }
}

/// Gives the K/V of an answer so far to the cache.
void Scheduler::remember(Answer &answer) {
  // The key is as long as the sequence, so this cannot fail.
  if (options_.cacheBytes > 0)
    (void)tree_->insert(answer.key(answer.fed), *answer.seq);
}

void Scheduler::end(Answer &answer, Finish finish, Status status) {
  if (std::exchange(answer.ended, true))
    return;
  if (answer.seq) {
    if (status.ok())
      remember(answer);
    (void)engine_.closeSequence(*answer.seq);
    answer.seq.reset();
  }
  answer.decoder.end(finish);
  ++(!status.ok() ? stats_.failed : finish == Finish::kCancelled ? stats_.cancelled : stats_.finished);
  AnswerEnd out{answer.id, finish, std::move(status), answer.decoder.finish(), uint32_t(answer.promptTokens),
                answer.cachedTokens, answer.decoder.tokens()};
  if (answer.request.onEnd)
    answer.request.onEnd(std::move(out));
}

void Scheduler::dropEnded() {
  for (Answers *answers : {&waiting_, &running_})
    std::erase_if(*answers, [](const auto &answer) { return answer->ended; });
}

} // namespace g4::sched
