#include "runtime/text/Chances.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace g4::text {

Chances chancesOf(std::span<const float> logits, int32_t id, uint32_t top) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit) - largest);
  const double all = largest + std::log(sum);
  const auto chance = [&](int32_t of) { return Chance{of, float(logits[size_t(of)] - all)}; };

  Chances out{chance(id), {}};
  const size_t count = std::min<size_t>(top, logits.size());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + ptrdiff_t(count), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x != y ? x > y : a < b;
  });
  for (size_t i = 0; i < count; ++i)
    out.top.push_back(chance(ids[i]));
  return out;
}

} // namespace g4::text
