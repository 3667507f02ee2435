/// What clients ask for: bodies of requests, checked and made into plain values. docs/server.md names the
/// fields.
#pragma once

#include "runtime/api/Engine.h"
#include "runtime/server/Json.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace g4::server {

/// What of the model decides which requests it can answer.
struct ModelFacts {
  std::string name; ///< what requests call it
  uint32_t vocabulary = 0, contextTokens = 0;
  api::SamplingOptions sampling = {}; ///< for what a request does not say
};

/// Most choices of one request: prompts times n.
inline constexpr uint32_t kMostChoices = 128;
/// Most `top_logprobs`.
inline constexpr uint32_t kMostLogprobs = 20;

/// What both ways to ask have in common.
struct Call {
  bool stream = false, includeUsage = false;
  uint32_t answers = 1; ///< for each prompt
  int priority = 0;
  std::optional<uint32_t> logprobs = {};
  decltype(api::Request::decode) decode = {};
};

struct ChatCall : Call {
  std::string conversation; ///< JSON for api::ChatRequest
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionCall : Call {
  std::vector<Prompt> prompts; ///< at least one
  bool echo = false;
};

struct TokenizeCall {
  std::string text, conversation; ///< one of them: the other is empty
  bool special = true;            ///< BOS in front; control tokens written out are recognised
  bool pieces = false;
};

/// The four bodies. Failures: 400 naming the field; 404 for another model.
Parsed<ChatCall> parseChat(std::string_view body, const ModelFacts &facts);
Parsed<CompletionCall> parseCompletion(std::string_view body, const ModelFacts &facts);
Parsed<TokenizeCall> parseTokenize(std::string_view body, const ModelFacts &facts);
Parsed<std::vector<int32_t>> parseDetokenize(std::string_view body, const ModelFacts &facts);

} // namespace g4::server
