#include "runtime/api/Impl.h"
#include "runtime/api/Windows.h"
#include "runtime/base/Guard.h"

namespace g4::api {
namespace {

Result<Perplexity> measure(Model &model, const Windows &windows,
                           const std::function<bool(uint32_t, uint32_t, double)> &onProgress) {
  const size_t vocabulary = model.vocabulary();
  Mean loss;
  for (uint32_t w = 0; w < windows.count(); ++w) {
    const std::vector<int32_t> part = windows.window(w);
    G4_ASSIGN_OR_RETURN(auto session, model.newSession());
    // Only rows whose next token is scored pass through the whole model, and the last token has no next one.
    FeedRequest request;
    request.want = Want::kNothing;
    request.ids = std::span(part).first(windows.unscored());
    G4_RETURN_IF_ERROR(session->feed(request));
    request.want = Want::kAll;
    request.ids = std::span(part).subspan(windows.unscored(), windows.scored());
    size_t next = windows.unscored() + 1;
    request.onLogits = [&](std::span<const float> logits) -> Status {
      for (; !logits.empty(); logits = logits.subspan(vocabulary), ++next) {
        const auto row = logits.first(vocabulary);
        loss.add(logSumExp(row) - double(row[size_t(part[next])]));
      }
      return {};
    };
    G4_RETURN_IF_ERROR(session->feed(request));
    if (onProgress && !onProgress(w + 1, windows.count(), std::exp(loss.value())))
      return Status(Code::kCancelled, "cancelled");
  }
  const double value = std::exp(loss.value());
  return Perplexity{value, value * loss.error(), loss.count, windows.count()};
}

} // namespace

Result<Windows> cutWindows(const Model &model, std::span<const int32_t> ids, uint32_t window) {
  if (window < 4 || window > model.contextTokens())
    return invalidArgument("a window of " + std::to_string(window) + " tokens is not in 4.." +
                           std::to_string(model.contextTokens()));
  if (ids.size() < window)
    return invalidArgument("the text has " + std::to_string(ids.size()) +
                           " tokens, less than one window of " + std::to_string(window));
  return Windows{ids, window};
}

Result<Perplexity> perplexity(Model &model, std::string_view text, uint32_t window,
                              const std::function<bool(uint32_t, uint32_t, double)> &onProgress) {
  return guarded([&]() -> Result<Perplexity> {
    G4_ASSIGN_OR_RETURN(const auto ids, model.tokenizePlain(text));
    G4_ASSIGN_OR_RETURN(const Windows windows, cutWindows(model, ids, window));
    return measure(model, windows, onProgress);
  });
}

} // namespace g4::api
