/// From the engine's events to the body of an answer: one JSON object, or server-sent events as they come.
#pragma once

#include "runtime/server/Json.h"

#include "runtime/api/Engine.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace g4::server {

struct AnswerHead {
  std::string id, model;
  int64_t created = 0; ///< seconds since 1970
  bool stream = false, includeUsage = false, logprobs = false;
  uint32_t prompts = 1, answers = 1; ///< choice p * answers + i is answer i to prompt p
};

/// A prompt that is part of its answers.
struct Echo {
  std::string text;
  size_t tokens = 0; ///< whose chances come as events before the answers'; 0: none come
};

/// Of all choices together.
struct AnswerTotals {
  uint64_t promptTokens = 0, cachedTokens = 0, tokens = 0, thoughtTokens = 0;
  api::Timings timings = {};
  std::string finish; ///< of the last choice that ended
};

/// Whole characters in, whole characters out, whatever the model wrote. Not thread safe.
class AnswerBody {
public:
  virtual ~AnswerBody() = default;

  /// What a stream begins with; nothing where the body is one object.
  void begin(std::string &out);
  /// Appends what there is to send because of `event`, of a request for prompt `prompt`.
  void add(uint32_t prompt, api::Event event, std::string &out);
  bool finished() const { return unfinished_ == 0; }
  /// Once, when finished: the object, or the end of the stream.
  void end(std::string &out);

  /// What an answer failed with. A stream has said so; in its place an object is not to be sent.
  const std::optional<Failure> &failure() const { return failure_; }
  const AnswerTotals &totals() const { return totals_; }

protected:
  /// A token with its chance, if there is one.
  struct Entry {
    std::optional<api::TokenChance> chance;
    std::vector<api::TokenChance> mostProbable;
    std::string bytes;
    size_t offset = 0; ///< characters of the choice's text before it
  };
  struct Choice {
    uint32_t index = 0;
    std::string text, thought;
    std::vector<Entry> entries;
    std::vector<Entry> held; ///< of tokens whose text did not appear yet
    size_t characters = 0;   ///< of `entries` and `held`
    bool begun = false;
    std::vector<api::Event> early; ///< came before the prompt's chances had all come
  };

  AnswerBody(AnswerHead head, std::vector<Echo> echoes);

  const AnswerHead &head() const { return head_; }
  /// "object" of a chunk, and of the whole.
  virtual const char *kind(bool chunk) const = 0;
  /// The choice's first chunk has something to say before any text.
  virtual bool opens() const = 0;
  virtual Json chunkOf(const Choice &choice, api::Part part, const std::string &text, Json logprobs,
                       bool first) const = 0;
  virtual Json wholeOf(const Choice &choice, Json logprobs) const = 0;
  virtual Json logprobsOf(const std::vector<Entry> &entries) const = 0;

private:
  struct Prompt {
    Echo echo;
    std::vector<Entry> entries;
    size_t characters = 0;
    bool complete() const { return entries.size() >= echo.tokens; }
  };

  void addPrompt(uint32_t prompt, api::TokenEvent &event, std::string &out);
  void addToken(Choice &choice, api::TokenEvent &event, std::string &out);
  void finish(Choice &choice, uint32_t prompt, const api::FinishEvent &event, std::string &out);
  void say(Choice &choice, api::Part part, const std::string &text, std::string &out);
  void open(Choice &choice, std::string &out);
  Json logprobs(const std::vector<Entry> &entries) const;
  void send(Json choice, std::string &out) const;
  Json object(bool chunk) const;
  Json usage() const;
  Json timings() const;

  AnswerHead head_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  std::vector<Json> reasons_; ///< [choices] why each ended
  size_t unfinished_;
  std::optional<Failure> failure_;
  AnswerTotals totals_;
};

std::unique_ptr<AnswerBody> makeChatBody(AnswerHead head);
/// `echoes`: one for each prompt, or none.
std::unique_ptr<AnswerBody> makeCompletionBody(AnswerHead head, std::vector<Echo> echoes);

/// Appends one server-sent event.
void appendEvent(std::string &out, std::string_view data);

} // namespace g4::server
