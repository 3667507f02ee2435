#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"
#include "runtime/engine/Prefill.h"
#include "runtime/text/Detokenizer.h"
#include "runtime/text/StopStrings.h"

#include <algorithm>

namespace g4::api {
namespace {

engine::Want wanted(Want want) {
  switch (want) {
  case Want::kNothing:
    return engine::Want::kNothing;
  case Want::kLast:
    return engine::Want::kLast;
  case Want::kAll:
    break;
  }
  return engine::Want::kAll;
}

/// Runs `ids` through the engine; keeps the last logits and the history.
Status feedIds(Session::Impl &session, const FeedRequest &request) {
  engine::Engine &engine = *session.model.engine;
  const size_t vocabulary = engine.limits().vocabulary;
  const uint32_t total = uint32_t(request.ids.size());
  const auto onChunk = [&](uint32_t first, uint32_t rows, const engine::StepOutput &output) -> Status {
    const auto done = request.ids.subspan(first, rows);
    session.history.insert(session.history.end(), done.begin(), done.end());
    if (!output.logits.empty()) {
      const auto last = output.logits.last(vocabulary);
      session.logits.assign(last.begin(), last.end());
      if (request.onLogits)
        G4_RETURN_IF_ERROR(request.onLogits(output.logits));
    }
    if (request.onProgress && !request.onProgress(first + rows, total))
      return {Code::kCancelled, "cancelled"};
    return {};
  };
  return engine::prefill(engine, session.seq, request.ids,
                         {request.chunk, wanted(request.want), request.forcedExperts}, onChunk,
                         request.onTap);
}

/// Feeds the token that was sampled last, if it is not in the K/V yet.
Status feedPending(Session::Impl &session, Want want) {
  if (!session.pending)
    return {};
  const int32_t token = *session.pending;
  const size_t before = session.history.size() - 1;
  session.history.pop_back(); // feedIds puts it back
  FeedRequest request;
  request.ids = {&token, 1};
  request.want = want;
  Status status = feedIds(session, request);
  if (status.ok())
    session.pending.reset();
  else if (session.history.size() == before)
    session.history.push_back(token);
  return status;
}

/// Text of a generation: characters held back until they are whole, and until they can be no stop string.
class TextStream {
public:
  TextStream(std::optional<text::Detokenizer> detokenizer, text::StopStrings stops,
             const GenerateRequest &request)
      : detokenizer_(std::move(detokenizer)), stops_(std::move(stops)), request_(request) {}

  /// False: the receiver wants no more.
  bool push(int32_t id) { return !detokenizer_ || send(stops_.push(detokenizer_->push(id))); }
  bool stopped() const { return stops_.stopped(); }
  void finish() {
    if (!detokenizer_)
      return;
    std::string rest = stops_.push(detokenizer_->finish());
    rest += stops_.finish();
    send(rest);
  }

private:
  bool send(const std::string &piece) { return !request_.onText || request_.onText(piece); }
  std::optional<text::Detokenizer> detokenizer_;
  text::StopStrings stops_;
  const GenerateRequest &request_;
};

Result<Generation> generateIds(Session::Impl &session, const GenerateRequest &request) {
  Model::Impl &model = session.model;
  G4_ASSIGN_OR_RETURN(auto sampler, text::Sampler::create(request.sampling));
  G4_ASSIGN_OR_RETURN(auto stops, text::StopStrings::create(request.stops));
  std::optional<text::Detokenizer> detokenizer;
  if (model.tokenizer)
    detokenizer.emplace(*model.tokenizer, text::Detokenizer::Options{});
  if (session.logits.empty())
    return invalidArgument("nothing to go on from: feed a prompt first");
  TextStream stream(std::move(detokenizer), std::move(stops), request);
  const auto allowed = request.suppress ? model.sampleable->words() : std::span<const uint32_t>();

  Generation out;
  out.finish = Finish::kLength;
  while (out.ids.size() < request.maxTokens) {
    if (session.pending) {
      if (*model.engine->length(session.seq) >= model.engine->limits().contextTokens) {
        out.finish = Finish::kContext;
        break;
      }
      G4_RETURN_IF_ERROR(feedPending(session, Want::kLast));
    }
    G4_ASSIGN_OR_RETURN(const int32_t token, sampler.sample(session.logits, session.history, allowed));
    out.ids.push_back(token);
    session.history.push_back(token);
    session.pending = token;
    if (!request.ignoreEos && std::binary_search(model.stopTokens.begin(), model.stopTokens.end(), token)) {
      out.finish = Finish::kStopToken;
      break;
    }
    if (!stream.push(token)) {
      out.finish = Finish::kCancelled;
      break;
    }
    if (stream.stopped()) {
      out.finish = Finish::kStopString;
      break;
    }
  }
  stream.finish();
  return out;
}

} // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  // The sequence is open, so closing it cannot fail.
  (void)impl_->model.engine->closeSequence(impl_->seq);
  --impl_->model.openSessions;
}

Status Session::feed(const FeedRequest &request) {
  return guarded([&]() -> Status {
    if (request.ids.empty())
      return invalidArgument("an empty prompt");
    G4_RETURN_IF_ERROR(feedPending(*impl_, Want::kNothing));
    impl_->logits.clear();
    return feedIds(*impl_, request);
  });
}

Result<Generation> Session::generate(const GenerateRequest &request) {
  return guarded([&]() -> Result<Generation> { return generateIds(*impl_, request); });
}

uint32_t Session::length() const { return *impl_->model.engine->length(impl_->seq); }

} // namespace g4::api
