#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/GemmaTemplate.h"
#include "runtime/text/TemplateMessages.h"

#include <nlohmann/json.hpp>

namespace g4::api {
namespace {

using text::Json;

Json requestJson(const ChatRequest &request) {
  Json json = Json::object();
  json["messages"] = Json::array();
  for (const Message &message : request.messages)
    json["messages"].push_back({{"role", message.role}, {"content", message.content}});
  json["enable_thinking"] = request.thinking;
  return json;
}

Result<Json> parseRequest(const ChatRequest &request) {
  if (request.json.empty())
    return requestJson(request);
  Json json = Json::parse(request.json, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return invalidArgument("the conversation is not valid JSON");
  return json;
}

/// The template in the model file; empty: it has none.
std::string_view templateOf(const Model::Impl &impl) {
  const auto *source = impl.facts().chat_template();
  return source ? source->string_view() : std::string_view();
}

Result<std::string> render(std::string_view source, Json json) {
  G4_RETURN_IF_ERROR(text::checkConversation(json));
  if (json["messages"].empty())
    return invalidArgument("the conversation has no messages");
  G4_ASSIGN_OR_RETURN(const auto compiled, text::ChatTemplate::compile(source));
  const auto results =
      compiled.readsToolMessages() ? text::ToolResults::kOwnMessages : text::ToolResults::kInsideCalls;
  G4_ASSIGN_OR_RETURN(Json messages, text::toTemplateMessages(json["messages"], results));
  const Json tools = json.contains("tools") ? json["tools"] : Json(nullptr);
  json.erase("messages");
  json.erase("tools");
  if (!json.contains("add_generation_prompt"))
    json["add_generation_prompt"] = true;
  return compiled.render(messages, tools, json);
}

} // namespace

Result<std::vector<int32_t>> Model::chatPrompt(const ChatRequest &request) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    G4_RETURN_IF_ERROR(impl_->needTokenizer());
    const std::string_view source = chatTemplate();
    if (source.empty())
      return invalidArgument(
          "the model has neither a chat template nor Gemma 4's turn tokens: it only goes on from a text");
    G4_ASSIGN_OR_RETURN(Json json, parseRequest(request));
    G4_ASSIGN_OR_RETURN(const std::string prompt, render(source, std::move(json)));
    return impl_->rules.tokenizer->encodePrompt(prompt, text::Match::kSpecial);
  });
}

std::string_view Model::chatTemplate() const {
  return usesBuiltInTemplate() ? std::string_view(text::kGemmaTemplate) : templateOf(*impl_);
}

bool Model::usesBuiltInTemplate() const {
  return templateOf(*impl_).empty() && impl_->rules.tokenizer && text::hasGemmaTurns(*impl_->rules.tokenizer);
}

} // namespace g4::api
