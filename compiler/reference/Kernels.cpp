#include "compiler/reference/Kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace g4::reference {

float dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

float geluTanh(float x) {
  constexpr float kSqrt2OverPi = 0.797884560802865f;
  return 0.5f * x * (1.0f + std::tanh(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
}

void rmsNorm(std::span<float> x, std::span<const float> gain, int64_t groups, float eps) {
  size_t length = x.size() / groups;
  for (int64_t g = 0; g < groups; ++g) {
    std::span<float> group = x.subspan(g * length, length);
    double square = 0;
    for (float value : group)
      square += static_cast<double>(value) * static_cast<double>(value);
    float scale =
        static_cast<float>(1.0 / std::sqrt(square / static_cast<double>(length) + static_cast<double>(eps)));
    for (size_t i = 0; i < length; ++i)
      group[i] = group[i] * scale * (gain.empty() ? 1.0f : gain[i]);
  }
}

void rope(std::span<float> x, int64_t heads, int64_t position, double base, std::span<const float> factors) {
  size_t dim = x.size() / heads, half = dim / 2;
  for (size_t j = 0; j < half; ++j) {
    double angle = static_cast<double>(position) *
                   std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
    if (!factors.empty())
      angle /= static_cast<double>(factors[j]);
    float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    for (int64_t h = 0; h < heads; ++h) {
      float &a = x[h * dim + j], &b = x[h * dim + j + half];
      float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }
}

void softmax(std::span<float> x) {
  float largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float &value : x) {
    value = std::exp(value - largest);
    sum += static_cast<double>(value);
  }
  for (float &value : x)
    value = static_cast<float>(static_cast<double>(value) / sum);
}

void attend(std::span<const float> query, const KeysValues &kv, int64_t position, int64_t heads, float scale,
            std::span<float> out) {
  int64_t first = kv.window ? std::max<int64_t>(0, position - kv.window + 1) : 0;
  int64_t dim = kv.dim, queriesPerKv = heads / kv.heads;
  std::vector<float> scores(position - first + 1);
  std::vector<double> sums(dim);
  for (int64_t h = 0; h < heads; ++h) {
    int64_t at = h / queriesPerKv * dim;
    for (int64_t p = first; p <= position; ++p)
      scores[p - first] = scale * dot(query.subspan(h * dim, dim), kv.keys.row(p).subspan(at, dim));
    softmax(scores);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t p = first; p <= position; ++p)
      for (int64_t d = 0; d < dim; ++d)
        sums[d] += static_cast<double>(scores[p - first]) * static_cast<double>(kv.values.row(p)[at + d]);
    for (int64_t d = 0; d < dim; ++d)
      out[h * dim + d] = static_cast<float>(sums[d]);
  }
}

std::vector<int32_t> topK(std::span<const float> x, int64_t count) {
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
  order.resize(count);
  return order;
}

} // namespace g4::reference
