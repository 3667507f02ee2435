/// What the server can be asked for, without a socket: endpoints, and answers in progress.
#pragma once

#include "runtime/api/Vocabulary.h"
#include "runtime/server/AnswerBody.h"
#include "runtime/server/Requests.h"
#include "runtime/server/Traffic.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace g4::server {

enum class Endpoint {
  kChat,
  kCompletions,
  kTokenize,
  kDetokenize,
  kModels,
  kModel,
  kHealth,
  kMetrics,
  kProps
};

/// `path` without a query.
std::optional<Endpoint> endpointOf(std::string_view path);
/// For metrics: of all models' alike.
std::string_view pathOf(Endpoint endpoint);
/// It is asked with POST and a body; the others with GET or HEAD.
bool takesBody(Endpoint endpoint);

struct Reply {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
};
Reply replyOf(const Failure &failure);

/// Answers that the engine works on. Destroying it cancels. Threads: one at a time.
class Running {
public:
  Running(std::vector<std::shared_ptr<api::Stream>> streams, std::unique_ptr<AnswerBody> body, bool stream);

  bool stream() const { return stream_; }
  /// Appends what a stream begins with.
  void begin(std::string &out) { body_->begin(out); }
  /// Appends what there is to send now, and no more than about `bytes`; the rest waits. False: that was the
  /// end.
  bool pull(std::string &out, size_t bytes);
  /// Answers end at the engine's next step.
  void cancel();
  /// Once pull() returned false.
  const std::optional<Failure> &failure() const { return body_->failure(); }
  const AnswerTotals &totals() const { return body_->totals(); }

private:
  std::vector<std::shared_ptr<api::Stream>> streams_; ///< [prompts]
  std::unique_ptr<AnswerBody> body_;
  bool stream_;
  std::deque<std::pair<uint32_t, api::Event>> taken_;
};

class Service {
public:
  /// `engine` and `vocabulary`, of one model, must outlive it. `name`: what requests call the model.
  Service(api::Engine &engine, const api::Vocabulary &vocabulary, std::string name);

  /// What needs no work. Thread of the sockets only, as `traffic` is theirs.
  Reply get(Endpoint endpoint, std::string_view path, const Traffic &traffic, bool draining) const;

  /// What does: reading, templates, tokens. `onReady` is called on the engine's thread when Running::pull may
  /// have something new; it must not block. Threads: any.
  using Outcome = std::variant<Reply, std::unique_ptr<Running>>;
  Outcome post(Endpoint endpoint, std::string_view body, std::function<void()> onReady) const;

private:
  Parsed<std::vector<int32_t>> idsOf(const Prompt &prompt) const;
  std::optional<Failure> tooLong(const Call &call, size_t tokens, const char *field) const;
  Outcome chat(std::string_view body, std::function<void()> onReady) const;
  Outcome complete(std::string_view body, std::function<void()> onReady) const;
  Reply tokenize(std::string_view body) const;
  Reply detokenize(std::string_view body) const;
  Json models() const;
  Json props() const;
  AnswerHead headOf(const Call &call, const char *prefix, size_t prompts) const;
  Parsed<std::shared_ptr<api::Stream>> submit(const Call &call, std::vector<int32_t> ids, bool promptLogprobs,
                                              const char *field, const std::function<void()> &onReady) const;

  api::Engine &engine_;
  const api::Vocabulary &vocabulary_;
  ModelFacts facts_;
  std::vector<int32_t> bos_; ///< what the tokenizer puts in front: nothing, or one id
  int64_t started_;          ///< seconds since 1970
};

} // namespace g4::server
