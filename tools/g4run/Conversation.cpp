#include "tools/g4run/Conversation.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/MappedFile.h"
#include "runtime/text/TemplateMessages.h"

#include <nlohmann/json.hpp>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMostBytes = 64 << 20; // no conversation is that long; a wrong file may be

Status badMessage(size_t index, const std::string &what) {
  return invalidArgument("message " + std::to_string(index + 1) + ": " + what);
}

/// A text of `object`, or empty when it is not there. Errors: kInvalidArgument when it is something else.
Result<std::string> textOf(const Json &object, const char *key, size_t index) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null())
    return std::string();
  if (!found->is_string())
    return badMessage(index, std::string("it has a '") + key + "' that is no text");
  return found->get<std::string>();
}

} // namespace

std::string Conversation::json() const {
  Json list = Json::array();
  if (!system.empty())
    list.push_back({{"role", "system"}, {"content", system}});
  for (const Message &message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
    if (!message.thought.empty())
      list.back()["reasoning_content"] = message.thought;
  }
  const Json out = {{"messages", std::move(list)}, {"enable_thinking", thinking}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<Conversation> Conversation::parse(const std::string &json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return invalidArgument("not valid JSON");
  G4_RETURN_IF_ERROR(text::checkConversation(root));
  Conversation out;
  out.thinking = root.value("enable_thinking", false);
  const Json &list = root["messages"];
  for (size_t i = 0; i < list.size(); ++i) {
    const Json &entry = list[i];
    Message message;
    G4_ASSIGN_OR_RETURN(message.role, textOf(entry, "role", i));
    G4_ASSIGN_OR_RETURN(message.content, textOf(entry, "content", i));
    G4_ASSIGN_OR_RETURN(message.thought, textOf(entry, "reasoning_content", i));
    if (message.role == "system" && i == 0) {
      out.system = message.content;
      continue;
    }
    const char *expected = out.messages.size() % 2 == 0 ? "user" : "assistant";
    if (message.role != expected)
      return badMessage(i, "it is not of the " + std::string(expected) +
                               ": a chat goes on from user and assistant in turn");
    out.messages.push_back(std::move(message));
  }
  if (out.messages.size() % 2 != 0)
    return invalidArgument("the last message has no answer");
  return out;
}

Status Conversation::save(const std::string &path) const {
  const std::string text = json() + "\n";
  G4_ASSIGN_OR_RETURN(const auto file, AtomicFile::create(path));
  G4_RETURN_IF_ERROR(file->writeAt(0, std::as_bytes(std::span(text.data(), text.size()))));
  return file->commit();
}

Result<Conversation> Conversation::load(const std::string &path) {
  G4_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kMostBytes)
    return invalidArgument(path + ": larger than any conversation");
  auto out = parse(std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  return out.ok() ? std::move(out) : Status(out.status()).withContext(path);
}

} // namespace g4::tool
