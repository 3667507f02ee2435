#include "runtime/api/Impl.h"
#include "runtime/base/Guard.h"

#include <cmath>

namespace g4::api {
namespace {

/// Log-probability of `token` under a row of logits.
double logProbability(std::span<const float> logits, int32_t token) {
  float most = logits[0];
  for (float logit : logits)
    most = std::max(most, logit);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit) - most);
  return double(logits[size_t(token)]) - most - std::log(sum);
}

Result<Perplexity> measure(Model &model, std::span<const int32_t> ids, int32_t bos, uint32_t window,
                           const std::function<bool(uint32_t, uint32_t, double)> &onProgress) {
  const uint32_t windows = uint32_t(ids.size() / window), first = window / 2;
  const size_t vocabulary = model.vocabulary();
  double sum = 0, squares = 0;
  uint64_t scored = 0;
  for (uint32_t w = 0; w < windows; ++w) {
    std::vector<int32_t> part(ids.begin() + w * size_t(window), ids.begin() + (w + 1) * size_t(window));
    part[0] = bos;
    G4_ASSIGN_OR_RETURN(auto session, model.newSession());
    // Only rows whose next token is scored pass through the whole model, and the last token has no next one.
    FeedRequest request;
    request.want = Want::kNothing;
    request.ids = std::span(part).first(first);
    G4_RETURN_IF_ERROR(session->feed(request));
    request.want = Want::kAll;
    request.ids = std::span(part).subspan(first, window - 1 - first);
    size_t next = first + 1;
    request.onLogits = [&](std::span<const float> logits) -> Status {
      for (; !logits.empty(); logits = logits.subspan(vocabulary), ++next) {
        const double loss = -logProbability(logits.first(vocabulary), part[next]);
        sum += loss;
        squares += loss * loss;
        ++scored;
      }
      return {};
    };
    G4_RETURN_IF_ERROR(session->feed(request));
    if (onProgress && !onProgress(w + 1, windows, std::exp(sum / double(scored))))
      return Status(Code::kCancelled, "cancelled");
  }
  const double mean = sum / double(scored);
  const double variance = std::max(0.0, squares / double(scored) - mean * mean);
  const double error = scored > 1 ? std::sqrt(variance / double(scored - 1)) : 0;
  return Perplexity{std::exp(mean), std::exp(mean) * error, scored, windows};
}

} // namespace

Result<Perplexity> perplexity(Model &model, std::string_view text, uint32_t window,
                              const std::function<bool(uint32_t, uint32_t, double)> &onProgress) {
  return guarded([&]() -> Result<Perplexity> {
    if (window < 4 || window > model.contextTokens())
      return invalidArgument("a window of " + std::to_string(window) + " tokens is not in 4.." +
                             std::to_string(model.contextTokens()));
    G4_ASSIGN_OR_RETURN(const auto ids, model.tokenizePlain(text));
    if (ids.size() < window)
      return invalidArgument("the text has " + std::to_string(ids.size()) +
                             " tokens, less than one window of " + std::to_string(window));
    return measure(model, ids, ids[0], window, onProgress); // tokenizing put the BOS in front
  });
}

} // namespace g4::api
