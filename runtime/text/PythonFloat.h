/// Floats as Python prints them, which is what templates written for Jinja2 expect. Internal to runtime/text and the
/// template engine.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace g4::text {

/// repr(value): the fewest digits that read back as the same number; fixed from 1e-4 up to 1e16, else scientific.
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

} // namespace g4::text
