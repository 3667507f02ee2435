/// The maths of the gemma ops, in the plainest form. Sums (dot products, mean squares, softmax) are
/// accumulated in double and rounded once; everything else is f32. Angles are computed in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace g4::reference {

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> data; ///< row-major

  Matrix() = default;
  Matrix(int64_t rows, int64_t columns) : rows(rows), columns(columns), data(rows * columns) {}
  std::span<float> row(int64_t i) { return {data.data() + i * columns, static_cast<size_t>(columns)}; }
  std::span<const float> row(int64_t i) const {
    return {data.data() + i * columns, static_cast<size_t>(columns)};
  }
};

/// One layer's keys and values, one row for each position from 0 on: [n, heads * dim].
struct KeysValues {
  Matrix keys, values;
  int64_t heads = 0, dim = 0;
  int64_t window = 0; ///< keys that a query sees; 0: all before it
};

float dot(std::span<const float> a, std::span<const float> b);
float geluTanh(float x);

/// `x` in groups of `gain.size()` (of all its elements when `gain` is empty and `groups` is 1).
void rmsNorm(std::span<float> x, std::span<const float> gain, int64_t groups, float eps);

/// Turns each head of `x` for `position`; `factors` may be empty.
void rope(std::span<float> x, int64_t heads, int64_t position, double base, std::span<const float> factors);

/// One query row at `position` against the keys it sees.
void attend(std::span<const float> query, const KeysValues &kv, int64_t position, int64_t heads, float scale,
            std::span<float> out);

void softmax(std::span<float> x);

/// The `count` largest of `x` by falling value, ties to the lower index.
std::vector<int32_t> topK(std::span<const float> x, int64_t count);

} // namespace g4::reference
