#include "runtime/text/TemplateMessages.h"
#include "runtime/base/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <new>

namespace g4::text {
namespace {

/// Counted from 1, as lines are.
Status badMessage(size_t index, const std::string &what) {
  return invalidArgument("message " + std::to_string(index + 1) + ": " + what);
}

std::string stringAt(const Json &object, const char *key) {
  const auto it = object.find(key); // the end of what is no object
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// The text of a string, or of a list of strings and {"text": ...} parts; empty for anything else.
std::string joinedText(const Json &content) {
  if (content.is_string())
    return content.get<std::string>();
  std::string out;
  if (content.is_array())
    for (const Json &part : content)
      out += part.is_string()   ? part.get<std::string>()
             : part.is_object() ? stringAt(part, "text")
                                : std::string();
  return out;
}

/// The object that `text` spells, or the text itself.
Json objectOrText(std::string text) {
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : Json(std::move(text));
}

bool isEmpty(const Json &value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string &>().empty()) ||
         (value.is_array() && value.empty());
}

void convertParts(Json &content) {
  constexpr std::pair<const char *, const char *> kTypes[] = {
      {"image_url", "image"}, {"input_image", "image"}, {"input_audio", "audio"}, {"audio_url", "audio"},
      {"video_url", "video"}, {"input_text", "text"},   {"output_text", "text"}};
  if (!content.is_array())
    return;
  for (Json &part : content) {
    if (part.is_string())
      part = {{"type", "text"}, {"text", part}};
    if (!part.is_object())
      continue;
    for (auto [from, to] : kTypes)
      if (stringAt(part, "type") == from)
        part["type"] = to;
  }
}

void convertReasoning(Json &message) {
  for (const char *key : {"reasoning", "reasoning_content"}) {
    const auto it = message.find(key);
    if (it == message.end() || it->is_string())
      continue;
    std::string text = joinedText(*it);
    if (text.empty())
      message.erase(key);
    else
      *it = std::move(text);
  }
}

Status convertCalls(Json &message, ToolResults results) {
  Json calls = Json::array();
  for (const Json &call : message["tool_calls"]) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object() ||
        stringAt(*function, "name").empty())
      return invalidArgument("a tool call has no function name");
    Json converted = {{"name", stringAt(*function, "name")}};
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || isEmpty(*arguments))
      converted["arguments"] = Json::object();
    else
      converted["arguments"] =
          arguments->is_string() ? objectOrText(arguments->get<std::string>()) : *arguments;
    Json out = Json::object();
    if (results == ToolResults::kOwnMessages && call.contains("id"))
      out["id"] = call["id"]; // the template looks results up by it
    out["function"] = std::move(converted);
    calls.push_back(std::move(out));
  }
  message["tool_calls"] = std::move(calls);
  if (const auto content = message.find("content"); content != message.end() && isEmpty(*content))
    message.erase("content");
  return {};
}

/// The name of the function that call `id` of `original` called, or empty.
std::string calledName(const Json &original, const std::string &id) {
  if (!id.empty())
    for (const Json &call : original["tool_calls"])
      if (stringAt(call, "id") == id)
        return stringAt(call["function"], "name");
  return {};
}

Status convert(const Json &messages, ToolResults results, Json &out) {
  size_t caller = messages.size(); // index of the assistant message that takes tool results; none yet
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json &message = messages[i];
    const auto fail = [&](const std::string &what) { return badMessage(i, what); };
    const std::string role = stringAt(message, "role");
    if (role == "tool" && results == ToolResults::kInsideCalls) {
      if (caller == messages.size())
        return fail("a tool result without a tool call before it");
      std::string name = calledName(messages[caller], stringAt(message, "tool_call_id"));
      if (name.empty())
        name = stringAt(message, "name");
      const auto content = message.find("content");
      Json response = content != message.end() && content->is_object()
                          ? *content
                          : objectOrText(content == message.end() ? std::string() : joinedText(*content));
      out.back()["tool_responses"].push_back(
          {{"name", name.empty() ? "unknown" : name}, {"response", std::move(response)}});
      continue;
    }
    out.push_back(message);
    Json &converted = out.back();
    convertReasoning(converted);
    if (const auto content = converted.find("content"); content != converted.end())
      convertParts(*content);
    const auto calls = message.find("tool_calls");
    const bool makesCalls = calls != message.end() && calls->is_array() && !calls->empty();
    if (makesCalls)
      if (Status status = convertCalls(converted, results); !status.ok())
        return badMessage(i, status.message());
    caller = makesCalls ? i : messages.size();
  }
  return {};
}

/// What is wrong with an entry of a list `content`; empty: it is text.
std::string faultOf(const Json &part) {
  if (part.is_string())
    return {};
  const std::string type = stringAt(part, "type");
  if (type.empty())
    return "has no type";
  if (type != "text" && type != "input_text" && type != "output_text")
    return "is of type " + quotedName(type) + ", but the model reads only text";
  return part.contains("text") && part["text"].is_string() ? std::string() : "has no text";
}

// "model" is what templates call the assistant.
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "model", "tool"};

std::string faultOfMessage(const Json &message) {
  if (!message.is_object())
    return "not an object";
  const std::string role = stringAt(message, "role");
  if (role.empty())
    return "it has no role";
  if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles))
    return "its role is " + quotedName(role) + ", which no message has";
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) // an assistant may have made calls instead
    return role == "user" || role == "system" || role == "developer" ? "it has no content" : "";
  if (content->is_string() || (content->is_object() && role == "tool"))
    return {};
  if (!content->is_array())
    return "its content is neither a text nor a list of parts";
  for (size_t i = 0; i < content->size(); ++i)
    if (const std::string fault = faultOf((*content)[i]); !fault.empty())
      return "part " + std::to_string(i + 1) + " " + fault;
  return {};
}

} // namespace

Status checkConversation(const Json &conversation) {
  const auto messages = conversation.find("messages"); // the end of what is no object
  if (messages == conversation.end() || !messages->is_array())
    return invalidArgument("no JSON object with a list 'messages'");
  if (const auto thinking = conversation.find("enable_thinking");
      thinking != conversation.end() && !thinking->is_boolean())
    return invalidArgument("'enable_thinking' is neither true nor false");
  if (const auto tools = conversation.find("tools"); tools != conversation.end() && !tools->is_null())
    if (!tools->is_array() ||
        !std::all_of(tools->begin(), tools->end(), [](const Json &tool) { return tool.is_object(); }))
      return invalidArgument("'tools' is no list of objects");
  for (size_t i = 0; i < messages->size(); ++i)
    if (const std::string fault = faultOfMessage((*messages)[i]); !fault.empty())
      return badMessage(i, fault);
  return {};
}

Result<Json> toTemplateMessages(const Json &messages, ToolResults results) {
  if (!messages.is_array())
    return invalidArgument("chat messages are not a list");
  try {
    Json out = Json::array();
    G4_RETURN_IF_ERROR(convert(messages, results, out));
    return out;
  } catch (const std::bad_alloc &) {
    return resourceExhausted("no memory to convert chat messages");
  } catch (const Json::exception &e) {
    return invalidArgument(std::string("chat messages: ") + e.what());
  }
}

} // namespace g4::text
