/// Floats as Python prints and templates written for Jinja2 expect them. Internal to runtime/text and the
/// template engine.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

namespace g4::text {

/// repr(value): the fewest digits that read back as the same number; fixed from 1e-4 up to 1e16, else
/// scientific.
inline std::string pythonRepr(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16)
    return scientific;
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, end);
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

/// Cuts off the fraction; the nearest integer for what is out of range, 0 for NaN.
inline int64_t toInteger(double value) {
  constexpr double kLimit = 0x1p63;
  if (std::isnan(value))
    return 0;
  if (value >= kLimit)
    return std::numeric_limits<int64_t>::max();
  return value < -kLimit ? std::numeric_limits<int64_t>::min() : int64_t(value);
}

} // namespace g4::text
