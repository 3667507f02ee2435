#include "runtime/api/Impl.h"
#include "runtime/api/Windows.h"
#include "runtime/base/Guard.h"

#include <algorithm>

namespace g4::api {
namespace {

// Rows of both models' logits at a time: enough to keep kernels busy, little memory (16 rows of the real
// vocabulary are 17 MB).
constexpr size_t kRows = 16;

Status sameTokens(Model &model, Model &reference, std::string_view text) {
  G4_RETURN_IF_ERROR(model.impl().needTokenizer());
  G4_RETURN_IF_ERROR(reference.impl().needTokenizer());
  const text::Tokenizer &a = *model.impl().rules.tokenizer, &b = *reference.impl().rules.tokenizer;
  if (a.size() != b.size())
    return invalidArgument("the models have different tokens: " + std::to_string(a.size()) +
                           ", the reference " + std::to_string(b.size()));
  for (int32_t id = 0; id < int32_t(a.size()); ++id)
    if (a.tokenText(id) != b.tokenText(id))
      return invalidArgument("the models have different tokens: token " + std::to_string(id) +
                             " is not the same");
  G4_ASSIGN_OR_RETURN(const auto ids, model.tokenizePlain(text));
  G4_ASSIGN_OR_RETURN(const auto others, reference.tokenizePlain(text));
  return ids == others ? Status() : invalidArgument("the models cut the text into different tokens");
}

class Comparison {
public:
  Comparison(Model &model, Model &reference, const Windows &windows)
      : model_(model), reference_(reference), windows_(windows) {}

  Status addWindow(uint32_t index) {
    const std::vector<int32_t> part = windows_.window(index);
    G4_ASSIGN_OR_RETURN(auto mine, model_.newSession());
    G4_ASSIGN_OR_RETURN(auto other, reference_.newSession());
    for (Session *session : {mine.get(), other.get()})
      G4_RETURN_IF_ERROR(
          session->feed({.ids = std::span(part).first(windows_.unscored()), .want = Want::kNothing}));
    for (size_t at = windows_.unscored(); at + 1 < part.size(); at += kRows) {
      const auto ids = std::span(part).subspan(at, std::min(kRows, part.size() - 1 - at));
      rows_.clear();
      const auto keep = [&](std::span<const float> logits) -> Status {
        rows_.insert(rows_.end(), logits.begin(), logits.end());
        return {};
      };
      size_t row = 0;
      const size_t vocabulary = model_.vocabulary();
      const auto compare = [&](std::span<const float> logits) -> Status {
        for (; !logits.empty(); logits = logits.subspan(vocabulary), ++row)
          add(std::span(rows_).subspan(row * vocabulary, vocabulary), logits.first(vocabulary),
              part[at + row + 1]);
        return {};
      };
      G4_RETURN_IF_ERROR(mine->feed({.ids = ids, .want = Want::kAll, .onLogits = keep}));
      G4_RETURN_IF_ERROR(other->feed({.ids = ids, .want = Want::kAll, .onLogits = compare}));
    }
    return {};
  }

  Divergence result() {
    Divergence out{};
    out.kl = kl_.value();
    out.klError = kl_.error();
    std::sort(kls_.begin(), kls_.end());
    const auto percentile = [&](double p) { return kls_[size_t(p * double(kls_.size() - 1))]; };
    out.klMedian = percentile(0.5);
    out.kl99 = percentile(0.99);
    out.klMost = percentile(1);
    out.sameTop = same_.value();
    out.sameTopError = same_.error();
    for (auto [to, from] : {std::pair(&out.model, &loss_), std::pair(&out.reference, &referenceLoss_)})
      *to = {std::exp(from->value()), std::exp(from->value()) * from->error(), from->count, windows_.count()};
    out.logRatio = difference_.value();
    out.logRatioError = difference_.error();
    return out;
  }

private:
  void add(std::span<const float> mine, std::span<const float> other, int32_t next) {
    const double mySum = logSumExp(mine), otherSum = logSumExp(other);
    double kl = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      const double logP = other[i] - otherSum;
      kl += std::exp(logP) * (logP - (mine[i] - mySum));
    }
    kl = std::max(kl, 0.0); // rounding
    kl_.add(kl);
    kls_.push_back(float(kl));
    const auto best = [](std::span<const float> row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    same_.add(best(mine) == best(other));
    const double loss = mySum - mine[size_t(next)], referenceLoss = otherSum - other[size_t(next)];
    loss_.add(loss);
    referenceLoss_.add(referenceLoss);
    difference_.add(loss - referenceLoss);
  }

  Model &model_, &reference_;
  const Windows &windows_;
  std::vector<float> rows_; // [rows, vocabulary] of the model
  std::vector<float> kls_;
  Mean kl_, same_, loss_, referenceLoss_, difference_;
};

} // namespace

Result<Divergence> divergence(Model &model, Model &reference, std::string_view text, uint32_t window,
                              const std::function<bool(uint32_t, uint32_t)> &onProgress) {
  return guarded([&]() -> Result<Divergence> {
    G4_RETURN_IF_ERROR(sameTokens(model, reference, text));
    G4_ASSIGN_OR_RETURN(const auto ids, model.tokenizePlain(text));
    G4_ASSIGN_OR_RETURN(const Windows windows, cutWindows(model, ids, window));
    if (window > reference.contextTokens())
      return invalidArgument("the reference has a context of " + std::to_string(reference.contextTokens()) +
                             " tokens only");
    Comparison comparison(model, reference, windows);
    for (uint32_t w = 0; w < windows.count(); ++w) {
      G4_RETURN_IF_ERROR(comparison.addWindow(w));
      if (onProgress && !onProgress(w + 1, windows.count()))
        return Status(Code::kCancelled, "cancelled");
    }
    return comparison.result();
  });
}

} // namespace g4::api
