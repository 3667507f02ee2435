/// Reads the fields of a request one by one; the first that is wrong ends it.
#pragma once

#include "runtime/server/Json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace g4::server {

/// Null counts as absent, as OpenAI's clients use it. A field that is absent, or read after a failure, leaves
/// its variable as it is; read() says whether it was there.
class Fields {
public:
  explicit Fields(const Json &object) : object_(object) {}

  const Json *find(const char *key) const {
    const auto at = object_.find(key);
    return failure_ || at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  bool read(const char *key, bool &out) {
    const Json *value = find(key);
    if (value && !value->is_boolean())
      return fail(key, "must be true or false");
    if (value)
      out = value->get<bool>();
    return value;
  }

  bool read(const char *key, std::string &out) {
    const Json *value = find(key);
    if (value && !value->is_string())
      return fail(key, "must be a text");
    if (value)
      out = value->get<std::string>();
    return value;
  }

  /// A whole number; 7.0 is one.
  template <class T>
  bool read(const char *key, T &out, int64_t least, int64_t most = std::numeric_limits<T>::max()) {
    const Json *value = find(key);
    if (!value)
      return false;
    const std::optional<int64_t> number = whole(*value);
    if (!number || *number < least || *number > most)
      return fail(key,
                  "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    out = T(*number);
    return true;
  }

  bool read(const char *key, float &out) {
    const Json *value = find(key);
    if (value && !value->is_number())
      return fail(key, "must be a number");
    if (value)
      out = float(value->get<double>());
    return value;
  }

  static std::optional<int64_t> whole(const Json &value) {
    if (value.is_number_unsigned())
      return std::in_range<int64_t>(value.get<uint64_t>()) ? std::optional(value.get<int64_t>())
                                                           : std::nullopt;
    if (value.is_number_integer())
      return value.get<int64_t>();
    if (value.is_number_float())
      if (const double x = value.get<double>(); x == std::floor(x) && std::abs(x) < 0x1p53)
        return int64_t(x);
    return {};
  }

  /// `what` follows the field's name: "must be true or false". False, for callers to return.
  bool fail(std::string key, const std::string &what) {
    if (!failure_) {
      std::string message = "'" + key + "' " + what;
      failure_ = badField(std::move(key), std::move(message));
    }
    return false;
  }
  const std::optional<Failure> &failure() const { return failure_; }

private:
  const Json &object_;
  std::optional<Failure> failure_;
};

} // namespace g4::server
