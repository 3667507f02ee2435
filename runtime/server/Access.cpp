#include "runtime/server/Access.h"

#include <algorithm>
#include <cstdint>

namespace g4::server {
namespace {

/// Takes as long for a right key as for a wrong one of the same length.
bool equal(std::string_view given, std::string_view key) {
  volatile uint8_t difference = given.size() != key.size();
  for (size_t i = 0; i < given.size() && !key.empty(); ++i)
    difference = difference | uint8_t(given[i] ^ key[i % key.size()]);
  return difference == 0;
}

bool isBearer(std::string_view scheme) {
  return std::ranges::equal(scheme, std::string_view("bearer "),
                            [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

} // namespace

bool Access::keyFits(std::string_view authorization) const {
  if (keys_.empty())
    return true;
  constexpr size_t kScheme = sizeof "Bearer " - 1;
  if (authorization.size() < kScheme || !isBearer(authorization.substr(0, kScheme)))
    return false;
  bool fits = false;
  for (const std::string &key : keys_) // all of them
    fits |= equal(authorization.substr(kScheme), key);
  return fits;
}

bool Access::originFits(std::string_view origin) const {
  return std::ranges::any_of(origins_, [&](const std::string &o) { return o == "*" || o == origin; });
}

bool Access::ownOrigin(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() && origin.substr(scheme + 3) == host;
}

} // namespace g4::server
