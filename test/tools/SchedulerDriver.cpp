// Runs a scheduler on an artifact as lines on standard input say, for tests: each line is a JSON object with one
// command, and is answered by one line.
//
//   scheduler-driver model.g4m '{"sequences": 16, "prefill_rows": 24, ...}'
//
// Options, all optional: threads, sequences, context, prefill_rows, poison (NaN in free pages), kv_tokens and
// cache_tokens (positions that all K/V, or the prefix cache, has pages for; cache_tokens 0: no cache).
//
//   {"submit": R}   R: {"ids": [...] or "chat": {"messages": [...], ...}, "tokens": n, "seed": s (0: greedy),
//                   "hash": bool, "prompt": bool (the prompt's rows too), "priority": p, "stop": bool}
//                   gives {"answer": number, "ids": [the prompt]}
//   {"cancel": number}
//   {"step": n}     runs at most n steps; gives the counters, and in "ended" the answers that ended since the last time
//   {"take": number}  what came of an answer, which is then forgotten: {"ids", "text" (without
//                   thoughts), "thoughts" (tokens), "hashes", "finish", ...}
//   {"solo": R}     the same from an engine of its own, without a scheduler: the prompt in one go, then token by token
//
// A hash is that of the log-probabilities of the whole vocabulary, by rank, to the last bit.
#include "runtime/api/Impl.h"
#include "runtime/base/Hash.h"
#include "runtime/sched/LogitRow.h"
#include "runtime/sched/Scheduler.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <map>

namespace {

using g4::Result;
using g4::Status;
using Json = nlohmann::json;
namespace sched = g4::sched;

std::string hashOf(const g4::text::Chances &chances) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)g4::hash64(std::as_bytes(std::span(chances.top))));
  return text;
}

struct Got {
  std::vector<int32_t> ids;
  std::vector<std::string> hashes, promptHashes;
  std::string text;
  uint32_t thoughts = 0; // tokens
  std::optional<sched::AnswerEnd> end;

  Json json() const {
    Json out = {{"ids", ids}, {"text", text}, {"thoughts", thoughts}, {"hashes", hashes}, {"prompt_hashes", promptHashes}};
    if (end) {
      out["finish"] = sched::finishText(end->finish);
      out["status"] = end->status.ok() ? "" : end->status.message();
      out["cached"] = end->cachedTokens;
    }
    return out;
  }
};

struct Driver {
  Json options;
  std::unique_ptr<g4::api::Model> model; // tokenizer, template, what tokens mean
  std::unique_ptr<g4::engine::Engine> engine;
  std::unique_ptr<sched::Scheduler> scheduler;
  std::map<uint64_t, std::shared_ptr<Got>> answers;
  std::vector<uint64_t> ended;

  Status open(const char *path);
  Result<std::unique_ptr<g4::engine::Engine>> newEngine(bool alone) const;
  uint64_t bytesOf(uint64_t tokens) const;
  Result<sched::AnswerRequest> request(const Json &from) const;
  Result<Json> submit(const Json &from);
  Result<Json> solo(const Json &from) const;
  Result<Json> step(uint32_t most);
  Result<Json> obey(const Json &command);
};

uint64_t Driver::bytesOf(uint64_t tokens) const {
  const g4::kv::KvCache &cache = model->impl().engine->cache();
  return cache.geometry().pagesOf(tokens) *
         (cache.pageBytes(g4::kv::PageClass::kSliding) + cache.pageBytes(g4::kv::PageClass::kGlobal));
}

Result<std::unique_ptr<g4::engine::Engine>> Driver::newEngine(bool alone) const {
  g4::engine::EngineOptions out;
  out.threads = options.value("threads", 1u);
  out.contextTokens = options.value("context", 0u);
  if (!alone) {
    out.maxSequences = options.value("sequences", 1u);
    out.poisonFreePages = options.value("poison", false);
    out.kvBytes = bytesOf(options.value("kv_tokens", uint64_t(0)));
  }
  return g4::engine::Engine::create(model->impl().module, out);
}

Status Driver::open(const char *path) {
  G4_ASSIGN_OR_RETURN(model, g4::api::Model::open(path, {.threads = 1}));
  G4_ASSIGN_OR_RETURN(engine, newEngine(false));
  sched::SchedulerOptions out;
  out.maxSequences = options.value("sequences", 1u);
  out.prefillRows = options.value("prefill_rows", 0u);
  if (options.contains("cache_tokens"))
    out.cacheBytes = bytesOf(options["cache_tokens"].get<uint64_t>());
  G4_ASSIGN_OR_RETURN(scheduler, sched::Scheduler::create(*engine, model->impl().rules, out));
  return {};
}

Result<sched::AnswerRequest> Driver::request(const Json &from) const {
  sched::AnswerRequest out;
  if (from.contains("chat")) {
    G4_ASSIGN_OR_RETURN(out.ids, model->chatPrompt({.json = from["chat"].dump()}));
  } else {
    out.ids = from.at("ids").get<std::vector<int32_t>>();
  }
  out.decode.maxTokens = from.value("tokens", 1u);
  out.decode.sampling.seed = from.value("seed", uint64_t(0));
  out.decode.sampling.temperature = out.decode.sampling.seed ? 1.0f : 0.0f;
  out.decode.ignoreEos = !from.value("stop", false);
  out.decode.suppress = from.value("stop", false);
  out.decode.divide = from.contains("chat"); // clients keep the answer, not the thoughts
  out.priority = from.value("priority", 0);
  if (from.value("hash", false))
    out.logprobs = engine->limits().vocabulary;
  out.promptLogprobs = from.value("prompt", false);
  return out;
}

Result<Json> Driver::submit(const Json &from) {
  G4_ASSIGN_OR_RETURN(sched::AnswerRequest answer, request(from));
  const Json ids = answer.ids;
  auto got = std::make_shared<Got>();
  answer.onToken = [got](sched::AnswerToken token) {
    if (token.chances)
      (token.ofPrompt ? got->promptHashes : got->hashes).push_back(hashOf(*token.chances));
    if (!token.ofPrompt) {
      got->ids.push_back(token.token.id);
      if (token.token.part == sched::Part::kAnswer)
        got->text += token.token.text;
      else
        ++got->thoughts;
    }
  };
  answer.onEnd = [this, got](sched::AnswerEnd end) {
    for (const auto &piece : end.rest)
      if (piece.part == sched::Part::kAnswer)
        got->text += piece.text;
    ended.push_back(uint64_t(end.answer));
    got->end = std::move(end);
  };
  G4_ASSIGN_OR_RETURN(const sched::AnswerId id, scheduler->submit(std::move(answer)));
  answers[uint64_t(id)] = got;
  return Json{{"answer", uint64_t(id)}, {"ids", ids}};
}

Result<Json> Driver::solo(const Json &from) const {
  G4_ASSIGN_OR_RETURN(const sched::AnswerRequest answer, request(from));
  G4_ASSIGN_OR_RETURN(const auto alone, newEngine(true));
  G4_ASSIGN_OR_RETURN(auto decoder, sched::Decoder::create(model->impl().rules, answer.decode));
  const g4::kv::SeqId seq = alone->openSequence();
  const size_t vocabulary = alone->limits().vocabulary;
  std::vector<int32_t> history = answer.ids;
  Got got;
  for (size_t fed = 0; !decoder.done();) {
    // One row of logits in each step, so that every row of the prompt that is wanted is the last one of its step.
    const size_t rows = answer.promptLogprobs ? 1 : std::min<size_t>(history.size() - fed, alone->limits().rows);
    std::vector<g4::kv::SeqId> sequences(rows, seq);
    std::vector<uint32_t> positions(rows);
    for (size_t i = 0; i < rows; ++i)
      positions[i] = uint32_t(fed + i);
    const uint32_t last = uint32_t(rows - 1);
    g4::engine::Step step;
    step.tokens = std::span(history).subspan(fed, rows);
    step.sequences = sequences;
    step.positions = positions;
    step.tailRows = step.logitRows = std::span(&last, 1);
    G4_ASSIGN_OR_RETURN(const auto output, alone->run(step));
    fed += rows;
    const auto row = sched::logitRow(output, 0, vocabulary);
    if (fed < history.size()) {
      if (answer.promptLogprobs)
        got.promptHashes.push_back(hashOf(g4::text::chancesOf(row.logits, 0, uint32_t(vocabulary))));
      continue;
    }
    G4_ASSIGN_OR_RETURN(const auto token, decoder.next(row, history));
    got.ids.push_back(token.id);
    if (answer.logprobs)
      got.hashes.push_back(hashOf(g4::text::chancesOf(row.logits, 0, uint32_t(vocabulary))));
    if (!decoder.done() && fed >= alone->limits().contextTokens)
      decoder.end(sched::Finish::kContext);
  }
  got.end = sched::AnswerEnd{.finish = decoder.reason()};
  return got.json();
}

Result<Json> Driver::step(uint32_t most) {
  for (; most > 0 && scheduler->busy(); --most)
    G4_RETURN_IF_ERROR(scheduler->step());
  const sched::SchedulerStats stats = scheduler->stats();
  const g4::kv::PrefixStats &cached = scheduler->cache().stats();
  // Pages in use that the cache does not hold: with nothing running, leaked ones.
  uint32_t pages = 0;
  for (const auto pageClass : {g4::kv::PageClass::kSliding, g4::kv::PageClass::kGlobal})
    pages += engine->cache().pool(pageClass).used() - cached.pages[pageClass];
  return Json{{"ended", std::exchange(ended, {})},
              {"steps", stats.steps},
              {"submitted", stats.submitted},
              {"finished", stats.finished},
              {"cancelled", stats.cancelled},
              {"failed", stats.failed},
              {"preempted", stats.preempted},
              {"running", stats.running},
              {"prompt_tokens", stats.promptTokens},
              {"cached_tokens", stats.cachedTokens},
              {"computed_tokens", stats.computedTokens},
              {"answer_tokens", stats.answerTokens},
              {"page_tokens", engine->cache().geometry().pageTokens},
              {"cache_bytes", cached.bytes},
              {"evicted_pages", cached.evictedSliding + cached.evictedGlobal},
              {"other_pages", pages}};
}

Result<Json> Driver::obey(const Json &command) {
  if (command.contains("submit"))
    return submit(command["submit"]);
  if (command.contains("solo"))
    return solo(command["solo"]);
  if (command.contains("step"))
    return step(command["step"].get<uint32_t>());
  if (command.contains("cancel")) {
    scheduler->cancel(sched::AnswerId(command["cancel"].get<uint64_t>()));
    return Json::object();
  }
  const auto found = answers.find(command.at("take").get<uint64_t>());
  if (found == answers.end())
    return g4::invalidArgument("no such answer");
  Json out = found->second->json();
  answers.erase(found);
  return out;
}

Status drive(const char *path, const char *options) {
  Driver driver{.options = Json::parse(options), .model = {}, .engine = {}, .scheduler = {}, .answers = {}, .ended = {}};
  G4_RETURN_IF_ERROR(driver.open(path));
  for (std::string line; std::getline(std::cin, line);) {
    G4_ASSIGN_OR_RETURN(const Json answer, driver.obey(Json::parse(line)));
    // What tokens say need not be whole characters when an answer was cut short.
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fputs("usage: scheduler-driver model.g4m options < commands\n", stderr);
    return 2;
  }
  try {
    const Status status = drive(argv[1], argv[2]);
    if (!status.ok())
      std::fprintf(stderr, "scheduler-driver: %s\n", status.message().c_str());
    return status.ok() ? 0 : 1;
  } catch (const std::exception &error) { // a malformed command
    std::fprintf(stderr, "scheduler-driver: %s\n", error.what());
    return 1;
  }
}
