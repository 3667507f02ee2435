#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"
#include "runtime/engine/Prefill.h"
#include "runtime/sched/LogitRow.h"

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

/// Gets the last row of each step that has logits, borrowed until the next step.
using OnLast = std::function<void(const text::LogitRow &row)>;

/// Runs `ids` through the engine; keeps the history.
Status feedIds(Session::Impl &session, const FeedRequest &request, const OnLast &onLast) {
  engine::Engine &engine = *session.model.engine;
  const size_t vocabulary = engine.limits().vocabulary;
  const uint32_t total = uint32_t(request.ids.size());
  const auto onChunk = [&](uint32_t first, uint32_t rows, const engine::StepOutput &output) -> Status {
    const auto done = request.ids.subspan(first, rows);
    session.history.insert(session.history.end(), done.begin(), done.end());
    if (!output.logits.empty()) {
      onLast(sched::logitRow(output, output.logits.size() / vocabulary - 1, vocabulary));
      if (request.onLogits)
        G4_RETURN_IF_ERROR(request.onLogits(output.logits));
    }
    if (request.onHidden && !output.hidden.empty())
      G4_RETURN_IF_ERROR(request.onHidden(output.hidden));
    if (request.onProgress && !request.onProgress(first + rows, total))
      return {Code::kCancelled, "cancelled"};
    return {};
  };
  return engine::prefill(engine, session.seq, request.ids,
                         {request.chunk, wanted(request.want), request.forcedExperts}, onChunk,
                         request.onTap);
}

/// Feeds the token that was sampled last, if it is not in the K/V yet.
Status feedPending(Session::Impl &session, Want want, const OnLast &onLast) {
  if (!session.pending)
    return {};
  const int32_t token = *session.pending;
  const size_t before = session.history.size() - 1;
  session.history.pop_back(); // feedIds puts it back
  FeedRequest request;
  request.ids = {&token, 1};
  request.want = want;
  Status status = feedIds(session, request, onLast);
  if (status.ok())
    session.pending.reset();
  else if (session.history.size() == before)
    session.history.push_back(token);
  return status;
}

Result<Generation> generateIds(Session::Impl &session, const GenerateRequest &request) {
  engine::Engine &engine = *session.model.engine;
  if (session.logits.empty())
    return invalidArgument("nothing to go on from: feed a prompt first");
  sched::DecodeOptions options = request;
  options.divide = bool(request.onPart);
  G4_ASSIGN_OR_RETURN(auto decoder, sched::Decoder::create(session.model.rules, std::move(options)));
  text::LogitRow row = session.logits.row();
  Generation out;
  while (!decoder.done()) {
    if (session.pending) {
      if (*engine.length(session.seq) >= engine.limits().contextTokens) {
        decoder.end(Finish::kContext);
        break;
      }
      G4_RETURN_IF_ERROR(feedPending(session, Want::kLast, [&](const text::LogitRow &last) { row = last; }));
    }
    auto token = decoder.next(row, session.history);
    if (!token.ok()) {
      session.logits.keep(row); // for another try
      return token.status();
    }
    session.pending = token->id;
    out.ids.push_back(token->id);
    if (!pass(request, token->part, token->text) && !decoder.done())
      decoder.end(Finish::kCancelled);
  }
  for (const auto &piece : decoder.finish())
    pass(request, piece.part, piece.text);
  out.finish = decoder.reason();
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
    const OnLast keep = [&](const text::LogitRow &row) { impl_->logits.keep(row); };
    G4_RETURN_IF_ERROR(feedPending(*impl_, Want::kNothing, keep));
    impl_->logits.clear();
    return feedIds(*impl_, request, keep);
  });
}

Result<Generation> Session::generate(const GenerateRequest &request) {
  return guarded([&]() -> Result<Generation> { return generateIds(*impl_, request); });
}

Result<uint32_t> Session::resume(std::span<const int32_t> ids) {
  if (ids.empty())
    return invalidArgument("no ids to resume");
  engine::Engine &engine = *impl_->model.engine;
  std::vector<int32_t> &history = impl_->history;
  if (impl_->pending) // not in the K/V
    history.pop_back();
  impl_->pending.reset();
  impl_->logits.clear();
  const size_t most = std::min(history.size(), ids.size() - 1);
  size_t common = size_t(
      std::mismatch(history.begin(), history.begin() + ptrdiff_t(most), ids.begin()).first - history.begin());
  if (!engine.truncate(impl_->seq, uint32_t(common)).ok()) { // its window is gone
    common = 0;
    G4_RETURN_IF_ERROR(engine.truncate(impl_->seq, 0));
  }
  history.resize(common);
  return uint32_t(common);
}

Status Session::hold() {
  if (!impl_->model.holds)
    return invalidArgument("the model was opened without holds");
  return impl_->model.engine->hold(impl_->seq);
}

uint32_t Session::length() const { return *impl_->model.engine->length(impl_->seq); }

} // namespace g4::api
