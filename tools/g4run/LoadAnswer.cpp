#include "tools/g4run/LoadAnswer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace g4::tool {
namespace {

using Json = nlohmann::json;

/// `value[key]`; null where that does not exist.
const Json &member(const Json &value, const char *key) {
  static const Json kNull;
  if (!value.is_object())
    return kNull;
  const auto at = value.find(key);
  return at == value.end() ? kNull : *at;
}

void readCount(const Json &value, std::optional<uint64_t> &out) {
  if (value.is_number_unsigned())
    out = value.get<uint64_t>();
}

/// At most 200 bytes: servers may say anything.
std::string shortened(std::string text) {
  constexpr size_t kMost = 200;
  if (text.size() <= kMost)
    return text;
  size_t end = kMost;
  while (end > 0 && (text[end] & 0xc0) == 0x80) // not inside a character
    --end;
  return text.substr(0, end) + "...";
}

/// The message of {"error": {"message": ...}} and of its shorter forms; nothing: no error.
std::optional<std::string> messageOf(const Json &json) {
  const Json &error = member(json, "error");
  if (error.is_string())
    return error.get<std::string>();
  if (const Json &message = member(error, "message"); message.is_string())
    return message.get<std::string>();
  return error.is_null() ? std::nullopt
                         : std::optional(error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool hasText(const Json &event) {
  const Json &choices = member(event, "choices");
  return choices.is_array() && std::any_of(choices.begin(), choices.end(), [](const Json &choice) {
           const Json &text = member(choice, "text");
           return text.is_string() && !text.get_ref<const std::string &>().empty();
         });
}

} // namespace

std::vector<std::string> SseReader::read(std::string_view bytes) {
  std::vector<std::string> out;
  for (char c : bytes) {
    const bool second = c == '\n' && afterReturn_; // of "\r\n"
    afterReturn_ = c == '\r';
    if (second)
      continue;
    if (c == '\n' || c == '\r')
      endLine(out);
    else
      line_ += c;
  }
  return out;
}

void SseReader::endLine(std::vector<std::string> &out) {
  std::string_view line = line_;
  if (first_ && line.starts_with("\xef\xbb\xbf"))
    line.remove_prefix(3);
  first_ = false;
  if (line.empty()) {
    if (hasData_)
      out.push_back(std::move(data_));
    data_.clear();
    hasData_ = false;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) == "data") {
    line.remove_prefix(std::min(colon + 1, line.size()));
    if (line.starts_with(' '))
      line.remove_prefix(1);
    if (hasData_)
      data_ += '\n';
    data_ += line;
    hasData_ = true;
  }
  line_.clear();
}

bool LoadAnswer::add(std::string_view data, double seconds, LoadOutcome &outcome) {
  if (done_)
    return true;
  if (data == "[DONE]")
    return done_ = true;
  const auto fail = [&](const char *kind, std::string message) {
    outcome.end = LoadOutcome::End::kFailed;
    outcome.failure = {kind, std::move(message)};
    return false;
  };
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object())
    return fail("protocol", "an event is no JSON object: " + shortened(std::string(data)));
  if (auto message = messageOf(event))
    return fail("error in stream", shortened(*std::move(message)));
  if (hasText(event)) {
    if (outcome.firstToken)
      outcome.gaps.push_back(seconds - outcome.lastToken);
    else
      outcome.firstToken = seconds;
    outcome.lastToken = seconds;
  }
  const Json &usage = member(event, "usage");
  readCount(member(usage, "prompt_tokens"), outcome.promptTokens);
  readCount(member(usage, "completion_tokens"), outcome.answerTokens);
  readCount(member(member(usage, "prompt_tokens_details"), "cached_tokens"), outcome.cachedTokens);
  return true;
}

std::string errorText(const std::string &body) {
  const Json json = Json::parse(body, nullptr, false);
  return shortened(messageOf(json).value_or(body));
}

} // namespace g4::tool
