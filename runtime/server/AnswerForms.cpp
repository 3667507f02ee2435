// The two forms of answers: chat.completion and text_completion.
#include "runtime/server/AnswerBody.h"
#include "runtime/text/Utf8.h"

namespace g4::server {
namespace {

using api::TokenChance;

Json bytesOf(const std::string &bytes) {
  Json out = Json::array();
  for (char c : bytes)
    out.push_back(uint8_t(c));
  return out;
}

/// JSON has no infinity: what no token has is written as OpenAI does.
double finite(float logprob) { return std::max(double(logprob), -9999.0); }

class ChatBody final : public AnswerBody {
public:
  explicit ChatBody(AnswerHead head) : AnswerBody(std::move(head), {}) {}

private:
  const char *kind(bool chunk) const override { return chunk ? "chat.completion.chunk" : "chat.completion"; }
  bool opens() const override { return true; }

  Json chunkOf(const Choice &choice, api::Part part, const std::string &text, Json logprobs,
               bool first) const override {
    Json delta = Json::object();
    if (first)
      delta["role"] = "assistant";
    delta[part == api::Part::kThought ? "reasoning_content" : "content"] = text;
    return {{"index", choice.index},
            {"delta", std::move(delta)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", nullptr}};
  }

  Json wholeOf(const Choice &choice, Json logprobs) const override {
    Json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    if (!choice.thought.empty())
      message["reasoning_content"] = choice.thought;
    return {{"index", choice.index}, {"message", std::move(message)}, {"logprobs", std::move(logprobs)}};
  }

  Json logprobsOf(const std::vector<Entry> &entries) const override {
    const auto one = [](const TokenChance &chance) {
      return Json{
          {"token", chance.bytes}, {"logprob", finite(chance.logprob)}, {"bytes", bytesOf(chance.bytes)}};
    };
    Json content = Json::array();
    for (const Entry &entry : entries) {
      Json json = one(*entry.chance);
      json["top_logprobs"] = Json::array();
      for (const TokenChance &chance : entry.mostProbable)
        json["top_logprobs"].push_back(one(chance));
      content.push_back(std::move(json));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
};

/// A token as the older form names it: its text, or "bytes:\xe2\x96" where that is none.
std::string nameOf(const std::string &bytes) {
  bool whole = true;
  for (size_t i = 0; i < bytes.size() && whole;) {
    const text::Utf8Prefix prefix = text::readUtf8(std::string_view(bytes).substr(i));
    whole = prefix.complete;
    i += prefix.bytes;
  }
  if (whole)
    return bytes;
  std::string out = "bytes:";
  for (char c : bytes) {
    char hex[5];
    std::snprintf(hex, sizeof hex, "\\x%02x", unsigned(uint8_t(c)));
    out += hex;
  }
  return out;
}

class CompletionBody final : public AnswerBody {
public:
  CompletionBody(AnswerHead head, std::vector<Echo> echoes)
      : AnswerBody(std::move(head), std::move(echoes)) {}

private:
  const char *kind(bool) const override { return "text_completion"; }
  bool opens() const override { return false; }

  Json chunkOf(const Choice &choice, api::Part, const std::string &text, Json logprobs, bool) const override {
    return {{"index", choice.index},
            {"text", text},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", nullptr}};
  }

  Json wholeOf(const Choice &choice, Json logprobs) const override {
    return {{"index", choice.index}, {"text", choice.text}, {"logprobs", std::move(logprobs)}};
  }

  Json logprobsOf(const std::vector<Entry> &entries) const override {
    Json out = {{"tokens", Json::array()},
                {"token_logprobs", Json::array()},
                {"top_logprobs", Json::array()},
                {"text_offset", Json::array()}};
    for (const Entry &entry : entries) {
      out["tokens"].push_back(nameOf(entry.bytes));
      out["token_logprobs"].push_back(entry.chance ? Json(finite(entry.chance->logprob)) : Json(nullptr));
      Json top = entry.chance ? Json::object() : Json(nullptr);
      for (const TokenChance &chance : entry.mostProbable)
        if (std::string name = nameOf(chance.bytes); !top.contains(name)) // several may be spelled alike
          top[std::move(name)] = finite(chance.logprob);
      out["top_logprobs"].push_back(std::move(top));
      out["text_offset"].push_back(entry.offset);
    }
    return out;
  }
};

} // namespace

std::unique_ptr<AnswerBody> makeChatBody(AnswerHead head) {
  return std::make_unique<ChatBody>(std::move(head));
}

std::unique_ptr<AnswerBody> makeCompletionBody(AnswerHead head, std::vector<Echo> echoes) {
  return std::make_unique<CompletionBody>(std::move(head), std::move(echoes));
}

} // namespace g4::server
