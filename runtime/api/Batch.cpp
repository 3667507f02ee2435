#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"
#include "runtime/sched/Scheduler.h"

namespace g4::api {
namespace {

using OnDone = std::function<void(size_t index, Result<Generation> result)>;

Status runBatch(Model::Impl &model, std::span<const BatchRequest> requests, const OnDone &onDone,
                const std::function<bool()> &goOn) {
  if (model.openSessions > 0)
    return resourceExhausted("sessions of the model are open");
  // Nothing is kept for later prompts: a batch ends, and its model goes on to something else.
  G4_ASSIGN_OR_RETURN(auto scheduler, sched::Scheduler::create(*model.engine, model.rules,
                                                               {.maxSequences = model.maxSessions, .cacheBytes = 0}));
  std::vector<Generation> generations(requests.size());
  std::vector<sched::AnswerId> unwanted; // whose receivers want no more
  for (size_t i = 0; i < requests.size(); ++i) {
    const GenerateRequest &generate = requests[i].generate;
    sched::AnswerRequest request;
    request.ids = requests[i].ids;
    request.decode = generate;
    request.decode.divide = bool(generate.onPart);
    request.onToken = [&, i](sched::AnswerToken token) {
      generations[i].ids.push_back(token.token.id);
      if (!pass(generate, token.token.part, token.token.text))
        unwanted.push_back(token.answer);
    };
    request.onEnd = [&, i](sched::AnswerEnd end) {
      for (const auto &piece : end.rest)
        pass(generate, piece.part, piece.text);
      generations[i].finish = end.finish;
      onDone(i, end.status.ok() ? Result<Generation>(std::move(generations[i])) : end.status);
    };
    if (auto submitted = scheduler->submit(std::move(request)); !submitted.ok())
      onDone(i, submitted.status());
  }
  while (scheduler->busy()) {
    if (goOn && !goOn())
      return {Code::kCancelled, "cancelled"};
    G4_RETURN_IF_ERROR(scheduler->step());
    for (sched::AnswerId answer : std::exchange(unwanted, {}))
      scheduler->cancel(answer);
  }
  return {};
}

} // namespace

Status generateBatch(Model &model, std::span<const BatchRequest> requests, const OnDone &onDone,
                     const std::function<bool()> &goOn) {
  return guarded([&] { return runBatch(model.impl(), requests, onDone, goOn); });
}

} // namespace g4::api
