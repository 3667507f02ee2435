/// Numbers with a bound on what a kernel may compute instead of them: running error analysis, in double.
///
/// Every operation adds the rounding error that Vulkan's shaders may make in it (a CPU's are smaller) to the
/// errors that its operands carry. Whatever the order of a sum, its terms' magnitudes bound the error, see
/// Sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace g4::test {

/// Half a unit in the last place of f32, relative. Operations that round correctly err by this; a fused
/// multiply-add that a driver does in two steps by twice that. Division: 2.5 units; the square root is
/// specified through the inverse one (2 units) and a division.
inline constexpr double kUnit = 0x1p-24;

struct Bounded {
  double value = 0, error = 0;
  Bounded() = default;
  Bounded(double value, double error = 0) : value(value), error(error) {}
  double magnitude() const { return std::abs(value) + error; }
  bool holds(double computed) const { return std::abs(computed - value) <= error; }
};

inline Bounded rounded(double value, double error, double units) {
  return {value, error + units * kUnit * (std::abs(value) + error)};
}
inline Bounded operator+(Bounded x, Bounded y) { return rounded(x.value + y.value, x.error + y.error, 1); }
inline Bounded operator-(Bounded x, Bounded y) { return rounded(x.value - y.value, x.error + y.error, 1); }
inline Bounded operator*(Bounded x, Bounded y) {
  return rounded(x.value * y.value,
                 std::abs(x.value) * y.error + std::abs(y.value) * x.error + x.error * y.error, 1);
}
inline Bounded operator/(Bounded x, Bounded y) {
  double q = x.value / y.value, smallest = std::abs(y.value) - y.error;
  return rounded(q, (x.error + std::abs(q) * y.error) / smallest, 5);
}
inline Bounded sqrt(Bounded x) {
  double root = std::sqrt(x.value);
  return rounded(root, x.error / root, 10);
}
/// The kernels' polynomial: one unit of its own, range reduction and the last products in two steps each.
/// Its argument is cut off at +-88, where nothing is left to tell apart.
inline Bounded exp(Bounded x) {
  double y = std::exp(std::clamp(x.value, -87.3, 88.3));
  return rounded(y, y * std::expm1(x.error), 16);
}

/// A sum of products in any order: at most `depth` roundings of partial sums that the terms' magnitudes
/// bound.
class Sum {
public:
  void add(Bounded product) {
    total += product.value;
    error += product.error;
    magnitudes += product.magnitude();
    ++count;
  }
  Bounded get() const { return {total, error + (count + 2) * kUnit * magnitudes}; }

private:
  double total = 0, error = 0, magnitudes = 0;
  int count = 0;
};

/// The integer nearest to x; off by one where the error reaches past a tie.
inline Bounded nearest(Bounded x) {
  double code = std::nearbyint(x.value);
  double toTie = 0.5 - std::abs(x.value - code);
  return {code, toTie <= x.error ? 1.0 : 0.0};
}

/// 1 / sqrt(mean of squares + eps) of `n` values.
template <typename At> Bounded rmsFactor(int n, double eps, At at) {
  Sum squares;
  for (int i = 0; i < n; ++i)
    squares.add(at(i) * at(i));
  return Bounded(1) / sqrt(squares.get() / Bounded(n) + Bounded(eps, kUnit * eps));
}

inline Bounded gelu(Bounded x) {
  Bounded u =
      (x * x * x * Bounded(0.044715, 0.044715 * kUnit) + x) * Bounded(0.7978845608, 0.7978845608 * kUnit);
  return x / (Bounded(1) + exp(u * Bounded(-2)));
}

} // namespace g4::test
