#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"
#include "runtime/text/ChatTemplate.h"
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
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    return invalidArgument("the conversation is no JSON object with a list 'messages'");
  return json;
}

Result<std::string> render(const std::string &source, Json json) {
  G4_ASSIGN_OR_RETURN(const auto compiled, text::ChatTemplate::compile(source));
  const auto results = compiled.readsToolMessages() ? text::ToolResults::kOwnMessages : text::ToolResults::kInsideCalls;
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
    const auto *source = impl_->facts().chat_template();
    if (!source || source->size() == 0)
      return invalidArgument("the model has no chat template; use a plain completion");
    G4_ASSIGN_OR_RETURN(Json json, parseRequest(request));
    G4_ASSIGN_OR_RETURN(const std::string prompt, render(source->str(), std::move(json)));
    return impl_->tokenizer->encodePrompt(prompt, text::Match::kSpecial);
  });
}

} // namespace g4::api
