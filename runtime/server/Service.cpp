#include "runtime/server/Service.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <stdexcept>

namespace g4::server {
namespace {

struct Route {
  std::string_view path;
  Endpoint endpoint;
  bool post;
};
constexpr std::array kRoutes{
    Route{"/v1/chat/completions", Endpoint::kChat, true},
    Route{"/v1/completions", Endpoint::kCompletions, true},
    Route{"/tokenize", Endpoint::kTokenize, true},
    Route{"/detokenize", Endpoint::kDetokenize, true},
    Route{"/v1/models", Endpoint::kModels, false},
    Route{"/health", Endpoint::kHealth, false},
    Route{"/metrics", Endpoint::kMetrics, false},
    Route{"/props", Endpoint::kProps, false},
};
constexpr std::string_view kModelPath = "/v1/models/";

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// "chatcmpl-" and 24 random hex digits.
std::string newId(const char *prefix) {
  std::random_device random;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x%08x", random(), random(), random());
  return std::string(prefix) + text;
}

/// "%20" and the like undone; a broken one stays.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() ? std::string_view("0123456789abcdef").find(char(text[at] | 0x20))
                              : std::string::npos;
    };
    const size_t high = digit(i + 1), low = digit(i + 2);
    if (text[i] == '%' && high < 16 && low < 16) {
      out += char(high << 4 | low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

Reply replyOf(const Json &json) { return {200, dump(json), "application/json"}; }

} // namespace

Reply replyOf(const Failure &failure) { return {failure.status, failureJson(failure), "application/json"}; }

std::optional<Endpoint> endpointOf(std::string_view path) {
  for (const Route &route : kRoutes)
    if (route.path == path)
      return route.endpoint;
  if (path.starts_with(kModelPath) && path.size() > kModelPath.size())
    return Endpoint::kModel;
  return {};
}

std::string_view pathOf(Endpoint endpoint) {
  const auto *route = std::ranges::find(kRoutes, endpoint, &Route::endpoint);
  return route == kRoutes.end() ? kModelPath.substr(0, kModelPath.size() - 1) : route->path;
}

bool takesBody(Endpoint endpoint) {
  return std::ranges::any_of(kRoutes, [&](const Route &r) { return r.endpoint == endpoint && r.post; });
}

//===- Answers in progress --------------------------------------------------------------------------===//

Running::Running(std::vector<std::shared_ptr<api::Stream>> streams, std::unique_ptr<AnswerBody> body,
                 bool stream)
    : streams_(std::move(streams)), body_(std::move(body)), stream_(stream) {}

bool Running::pull(std::string &out, size_t bytes) {
  if (taken_.empty()) // from all: a stream tells only of the first event that it gets
    for (uint32_t i = 0; i < streams_.size(); ++i)
      for (api::Event &event : streams_[i]->take())
        taken_.emplace_back(i, std::move(event));
  while (!taken_.empty() && out.size() < bytes) {
    auto [prompt, event] = std::move(taken_.front());
    taken_.pop_front();
    body_->add(prompt, std::move(event), out);
  }
  if (!body_->finished())
    return true;
  if (stream_ || !body_->failure())
    body_->end(out);
  return false;
}

void Running::cancel() {
  for (const auto &stream : streams_)
    stream->cancel();
}

//===- Endpoints ------------------------------------------------------------------------------------===//

Service::Service(api::Engine &engine, const api::Vocabulary &vocabulary, std::string name)
    : engine_(engine), vocabulary_(vocabulary), started_(now()) {
  const api::Model &model = engine.model();
  facts_ = {std::move(name), model.vocabulary(), model.contextTokens(), model.defaultSampling()};
  if (auto bos = vocabulary.encode("", {}); bos.ok())
    bos_ = *std::move(bos);
}

Json Service::models() const {
  return {{"id", facts_.name},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "g4"},
          {"max_model_len", facts_.contextTokens}};
}

Json Service::props() const {
  const api::Model &model = engine_.model();
  const api::SamplingOptions &sampling = facts_.sampling;
  return {{"model", facts_.name},
          {"model_name", model.name()},
          {"variant", model.variant()},
          {"threads", model.threads()},
          {"vocabulary", facts_.vocabulary},
          {"context_tokens", facts_.contextTokens},
          {"layers", model.layers()},
          {"hidden_size", model.hiddenSize()},
          {"experts_used", model.expertsUsed()},
          {"default_sampling",
           {{"temperature", sampling.temperature},
            {"top_k", sampling.topK},
            {"top_p", sampling.topP},
            {"min_p", sampling.minP}}},
          {"chat_template", model.chatTemplate()},
          {"built_in_template", model.usesBuiltInTemplate()}};
}

Reply Service::get(Endpoint endpoint, std::string_view path, const Traffic &traffic, bool draining) const {
  switch (endpoint) {
  case Endpoint::kModels:
    return replyOf(Json{{"object", "list"}, {"data", Json::array({models()})}});
  case Endpoint::kModel:
    if (std::string id = unescaped(path.substr(kModelPath.size())); id != facts_.name)
      return replyOf(Failure{404, "there is no such model here, only '" + facts_.name + "'", "model",
                             "model_not_found"});
    return replyOf(models());
  case Endpoint::kMetrics:
    return {200, metricsText(engine_.stats(), traffic), kMetricsType};
  case Endpoint::kProps:
    return replyOf(props());
  default:
    return {draining ? 503U : 200U, draining ? R"({"status":"draining"})" : R"({"status":"ok"})",
            "application/json"};
  }
}

Service::Outcome Service::post(Endpoint endpoint, std::string_view body,
                               std::function<void()> onReady) const {
  try {
    switch (endpoint) {
    case Endpoint::kChat:
      return chat(body, std::move(onReady));
    case Endpoint::kCompletions:
      return complete(body, std::move(onReady));
    case Endpoint::kTokenize:
      return tokenize(body);
    default:
      return detokenize(body);
    }
  } catch (const std::bad_alloc &) {
    return replyOf(Failure{503, "no memory for this request", {}, {}});
  } catch (const std::length_error &) {
    return replyOf(Failure{503, "no memory for this request", {}, {}});
  }
}

AnswerHead Service::headOf(const Call &call, const char *prefix, size_t prompts) const {
  return {newId(prefix),     facts_.name, now(), call.stream, call.includeUsage, call.logprobs.has_value(),
          uint32_t(prompts), call.answers};
}

std::optional<Failure> Service::tooLong(const Call &call, size_t tokens, const char *field) const {
  if (tokens + (call.decode.maxTokens > 0) <= facts_.contextTokens)
    return {};
  return Failure{400,
                 "the prompt has " + std::to_string(tokens) + " tokens; the context of " +
                     std::to_string(facts_.contextTokens) + " leaves no place for an answer",
                 field, "context_length_exceeded"};
}

Parsed<std::shared_ptr<api::Stream>> Service::submit(const Call &call, std::vector<int32_t> ids,
                                                     bool promptLogprobs, const char *field,
                                                     const std::function<void()> &onReady) const {
  api::Request request;
  request.ids = std::move(ids);
  request.decode = call.decode;
  request.answers = call.answers;
  request.priority = call.priority;
  request.logprobs = call.logprobs;
  request.promptLogprobs = promptLogprobs;
  request.onReady = onReady;
  auto stream = engine_.submit(std::move(request));
  if (stream.ok())
    return *std::move(stream);
  Failure failure = failureOf(stream.status(), field);
  if (stream.status().code() == Code::kResourceExhausted)
    failure = {429, stream.status().message(), {}, "queue_full"};
  return failure;
}

Service::Outcome Service::chat(std::string_view body, std::function<void()> onReady) const {
  Parsed<ChatCall> parsed = parseChat(body, facts_);
  if (auto *failure = std::get_if<Failure>(&parsed))
    return replyOf(*failure);
  ChatCall &call = std::get<ChatCall>(parsed);
  auto ids = engine_.model().chatPrompt({.json = std::move(call.conversation)});
  if (!ids.ok())
    return replyOf(failureOf(ids.status(), "messages"));
  if (auto failure = tooLong(call, ids->size(), "messages"))
    return replyOf(*failure);
  auto stream = submit(call, *std::move(ids), false, "messages", onReady);
  if (auto *failure = std::get_if<Failure>(&stream))
    return replyOf(*failure);
  std::vector<std::shared_ptr<api::Stream>> streams{std::get<0>(std::move(stream))};
  return std::make_unique<Running>(std::move(streams), makeChatBody(headOf(call, "chatcmpl-", 1)),
                                   call.stream);
}

Parsed<std::vector<int32_t>> Service::idsOf(const Prompt &prompt) const {
  if (const auto *ids = std::get_if<std::vector<int32_t>>(&prompt))
    return *ids;
  auto ids = engine_.model().tokenize(std::get<std::string>(prompt));
  if (!ids.ok())
    return failureOf(ids.status(), "prompt");
  return *std::move(ids);
}

Service::Outcome Service::complete(std::string_view body, std::function<void()> onReady) const {
  Parsed<CompletionCall> parsed = parseCompletion(body, facts_);
  if (auto *failure = std::get_if<Failure>(&parsed))
    return replyOf(*failure);
  const CompletionCall &call = std::get<CompletionCall>(parsed);
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Echo> echoes;
  for (const Prompt &prompt : call.prompts) {
    auto parsedIds = idsOf(prompt);
    if (auto *failure = std::get_if<Failure>(&parsedIds))
      return replyOf(*failure);
    auto &ids = std::get<0>(parsedIds);
    if (ids.empty())
      return replyOf(badField("prompt", "'prompt' has no tokens"));
    if (auto failure = tooLong(call, ids.size(), "prompt"))
      return replyOf(*failure);
    if (call.echo) {
      const bool hasBos = !bos_.empty() && ids[0] == bos_[0];
      auto text = vocabulary_.decode(std::span(ids).subspan(hasBos));
      const auto *given = std::get_if<std::string>(&prompt);
      echoes.push_back({given ? *given : text.ok() ? *std::move(text) : "", call.logprobs ? ids.size() : 0});
    }
    prompts.push_back(std::move(ids));
  }
  // Nothing runs before all is known to be good; where one is refused, destroying the others cancels them.
  std::vector<std::shared_ptr<api::Stream>> streams;
  for (auto &ids : prompts) {
    auto stream = submit(call, std::move(ids), call.echo && call.logprobs, "prompt", onReady);
    if (auto *failure = std::get_if<Failure>(&stream))
      return replyOf(*failure);
    streams.push_back(std::get<0>(std::move(stream)));
  }
  auto answers = makeCompletionBody(headOf(call, "cmpl-", streams.size()), std::move(echoes));
  return std::make_unique<Running>(std::move(streams), std::move(answers), call.stream);
}

Reply Service::tokenize(std::string_view body) const {
  Parsed<TokenizeCall> parsed = parseTokenize(body, facts_);
  if (auto *failure = std::get_if<Failure>(&parsed))
    return replyOf(*failure);
  TokenizeCall &call = std::get<TokenizeCall>(parsed);
  const bool chat = !call.conversation.empty();
  auto ids = chat ? engine_.model().chatPrompt({.json = std::move(call.conversation)})
                  : vocabulary_.encode(call.text, {.special = true, .bos = call.special});
  if (!ids.ok())
    return replyOf(failureOf(ids.status(), chat ? "messages" : "prompt"));
  Json out = {{"tokens", *ids}, {"count", ids->size()}, {"max_model_len", facts_.contextTokens}};
  if (call.pieces) {
    out["pieces"] = Json::array();
    for (int32_t id : *ids)
      out["pieces"].push_back(vocabulary_.piece(id));
  }
  return replyOf(out);
}

Reply Service::detokenize(std::string_view body) const {
  Parsed<std::vector<int32_t>> parsed = parseDetokenize(body, facts_);
  if (auto *failure = std::get_if<Failure>(&parsed))
    return replyOf(*failure);
  auto text = vocabulary_.decode(std::get<0>(parsed));
  if (!text.ok())
    return replyOf(failureOf(text.status(), "tokens"));
  return replyOf(Json{{"prompt", *text}, {"content", *text}});
}

} // namespace g4::server
