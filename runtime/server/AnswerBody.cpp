#include "runtime/server/AnswerBody.h"

#include <algorithm>

namespace g4::server {
namespace {

/// Characters that begin in `bytes`.
size_t charactersOf(std::string_view bytes) {
  return size_t(std::ranges::count_if(bytes, [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

std::optional<Failure> failureIn(const api::FinishEvent &event) {
  if (!event.status.ok())
    return failureOf(event.status);
  if (event.finish == api::Finish::kCancelled) // by the server: who asked is not there to read this
    return Failure{503, "the server is shutting down", {}, "shutting_down"};
  return {};
}

} // namespace

void appendEvent(std::string &out, std::string_view data) { (((out += "data: ") += data) += "\n\n"); }

AnswerBody::AnswerBody(AnswerHead head, std::vector<Echo> echoes) : head_(std::move(head)) {
  prompts_.resize(head_.prompts);
  for (size_t i = 0; i < echoes.size(); ++i)
    prompts_[i].echo = std::move(echoes[i]);
  choices_.resize(size_t(head_.prompts) * head_.answers);
  for (size_t i = 0; i < choices_.size(); ++i)
    choices_[i].index = uint32_t(i);
  reasons_.resize(choices_.size());
  unfinished_ = choices_.size();
}

void AnswerBody::begin(std::string &out) {
  if (head_.stream && opens())
    for (Choice &choice : choices_)
      open(choice, out);
}

void AnswerBody::add(uint32_t prompt, api::Event event, std::string &out) {
  auto *token = std::get_if<api::TokenEvent>(&event);
  if (token && token->ofPrompt)
    return addPrompt(prompt, *token, out);
  const uint32_t answer = token ? token->answer : std::get<api::FinishEvent>(event).answer;
  Choice &choice = choices_[size_t(prompt) * head_.answers + answer];
  // An answer that failed may have had no chances of its prompt.
  const bool failed = !token && failureIn(std::get<api::FinishEvent>(event));
  if (!prompts_[prompt].complete() && !failed)
    return choice.early.push_back(std::move(event));
  if (token)
    addToken(choice, *token, out);
  else
    finish(choice, prompt, std::get<api::FinishEvent>(event), out);
}

void AnswerBody::addPrompt(uint32_t number, api::TokenEvent &event, std::string &out) {
  Prompt &prompt = prompts_[number];
  if (prompt.complete())
    return;
  std::string bytes = event.chance ? event.chance->bytes : event.text;
  // A BOS that the tokenizer put in front is no part of the text.
  const bool shown = !prompt.entries.empty() || prompt.echo.text.starts_with(bytes);
  prompt.entries.push_back(
      {std::move(event.chance), std::move(event.mostProbable), bytes, prompt.characters});
  prompt.characters += shown ? charactersOf(bytes) : 0;
  if (!prompt.complete())
    return;
  for (uint32_t i = 0; i < head_.answers; ++i) {
    Choice &choice = choices_[size_t(number) * head_.answers + i];
    for (api::Event &early : std::exchange(choice.early, {}))
      add(number, std::move(early), out);
  }
}

void AnswerBody::open(Choice &choice, std::string &out) {
  if (std::exchange(choice.begun, true))
    return;
  Prompt &prompt = prompts_[choice.index / head_.answers];
  choice.held.insert(choice.held.begin(), prompt.entries.begin(), prompt.entries.end());
  choice.characters += prompt.characters;
  if (head_.stream && opens())
    send(chunkOf(choice, api::Part::kAnswer, "", nullptr, /*first=*/true), out);
  if (!prompt.echo.text.empty() || !choice.held.empty())
    say(choice, api::Part::kAnswer, prompt.echo.text, out);
}

void AnswerBody::addToken(Choice &choice, api::TokenEvent &event, std::string &out) {
  open(choice, out);
  if (event.part == api::Part::kThought) {
    totals_.thoughtTokens += event.id >= 0;
    choice.held.clear(); // the mark that began the thought: logprobs are those of the answer
  } else if (event.chance) {
    std::string bytes = event.chance->bytes;
    const size_t characters = charactersOf(bytes);
    choice.held.push_back(
        {std::move(event.chance), std::move(event.mostProbable), std::move(bytes), choice.characters});
    choice.characters += characters;
  }
  if (!event.text.empty())
    say(choice, event.part, event.text, out);
}

/// Sends or keeps text, with the entries of the tokens that it ends.
void AnswerBody::say(Choice &choice, api::Part part, const std::string &text, std::string &out) {
  std::vector<Entry> entries;
  if (part == api::Part::kAnswer)
    entries.swap(choice.held);
  if (head_.stream)
    return send(chunkOf(choice, part, text, logprobs(entries), /*first=*/false), out);
  (part == api::Part::kThought ? choice.thought : choice.text) += text;
  std::move(entries.begin(), entries.end(), std::back_inserter(choice.entries));
}

void AnswerBody::finish(Choice &choice, uint32_t prompt, const api::FinishEvent &event, std::string &out) {
  --unfinished_;
  if (event.answer == 0) {
    totals_.promptTokens += event.promptTokens;
    totals_.cachedTokens += event.cachedTokens;
  }
  totals_.tokens += event.tokens;
  totals_.finish = api::finishText(event.finish);
  api::Timings &all = totals_.timings;
  const bool one = prompt == 0 && event.answer == 0;
  all.waiting = one ? event.timings.waiting : std::min(all.waiting, event.timings.waiting);
  if (event.timings.firstToken > 0)
    all.firstToken =
        all.firstToken > 0 ? std::min(all.firstToken, event.timings.firstToken) : event.timings.firstToken;
  all.total = std::max(all.total, event.timings.total);
  if (auto failure = failureIn(event)) {
    if (!failure_)
      failure_ = std::move(failure);
    return;
  }
  open(choice, out);
  const bool stopped = event.finish == api::Finish::kStopToken || event.finish == api::Finish::kStopString;
  if (stopped)
    choice.held.clear(); // the stop token, and tokens of a stop text: their text never appears
  else if (!choice.held.empty())
    say(choice, api::Part::kAnswer, "", out);
  reasons_[choice.index] = stopped ? "stop" : "length";
  if (!head_.stream)
    return;
  Json last = chunkOf(choice, api::Part::kAnswer, "", nullptr, /*first=*/false);
  if (last.contains("delta"))
    last["delta"] = Json::object();
  last["finish_reason"] = reasons_[choice.index];
  send(std::move(last), out);
}

void AnswerBody::end(std::string &out) {
  if (head_.stream) {
    if (failure_) {
      appendEvent(out, failureJson(*failure_));
    } else if (head_.includeUsage) {
      Json last = object(/*chunk=*/true);
      last["choices"] = Json::array();
      last["usage"] = usage();
      last["timings"] = timings();
      appendEvent(out, dump(last));
    }
    return appendEvent(out, "[DONE]");
  }
  Json whole = object(/*chunk=*/false);
  whole["choices"] = Json::array();
  for (const Choice &choice : choices_) {
    Json json = wholeOf(choice, logprobs(choice.entries));
    json["finish_reason"] = reasons_[choice.index];
    whole["choices"].push_back(std::move(json));
  }
  whole["usage"] = usage();
  whole["timings"] = timings();
  out += dump(whole);
}

Json AnswerBody::logprobs(const std::vector<Entry> &entries) const {
  return head_.logprobs && !entries.empty() ? logprobsOf(entries) : Json(nullptr);
}

void AnswerBody::send(Json choice, std::string &out) const {
  Json chunk = object(/*chunk=*/true);
  chunk["choices"] = Json::array({std::move(choice)});
  if (head_.includeUsage)
    chunk["usage"] = nullptr;
  appendEvent(out, dump(chunk));
}

Json AnswerBody::object(bool chunk) const {
  return {{"id", head_.id}, {"object", kind(chunk)}, {"created", head_.created}, {"model", head_.model}};
}

Json AnswerBody::usage() const {
  const AnswerTotals &t = totals_;
  return {{"prompt_tokens", t.promptTokens},
          {"completion_tokens", t.tokens},
          {"total_tokens", t.promptTokens + t.tokens},
          {"prompt_tokens_details", {{"cached_tokens", t.cachedTokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", t.thoughtTokens}}}};
}

Json AnswerBody::timings() const {
  const AnswerTotals &t = totals_;
  const uint64_t computed = t.promptTokens - std::min(t.cachedTokens, t.promptTokens);
  const double prompt = std::max(0.0, t.timings.firstToken - t.timings.waiting);
  const double answer = t.timings.firstToken > 0 ? t.timings.total - t.timings.firstToken : 0;
  const auto rate = [](uint64_t n, double seconds) { return seconds > 0 ? double(n) / seconds : 0.0; };
  // The first token of each choice comes with its prompt.
  const uint64_t steps = t.tokens - std::min<uint64_t>(t.tokens, choices_.size());
  return {{"queue_ms", t.timings.waiting * 1e3},
          {"cache_n", t.cachedTokens},
          {"prompt_n", computed},
          {"prompt_ms", prompt * 1e3},
          {"prompt_per_second", rate(computed, prompt)},
          {"predicted_n", t.tokens},
          {"predicted_ms", answer * 1e3},
          {"predicted_per_second", rate(steps, answer)},
          {"first_token_ms", t.timings.firstToken * 1e3},
          {"total_ms", t.timings.total * 1e3}};
}

} // namespace g4::server
