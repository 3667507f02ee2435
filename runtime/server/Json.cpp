#include "runtime/server/Json.h"

#include <vector>

namespace g4::server {
namespace {

/// Why `text` goes beyond `limits`; empty: it does not. Looks at brackets, commas and strings only, and finds
/// no fewer members than a parser would.
std::string excess(std::string_view text, const JsonLimits &limits) {
  struct Level {
    bool object;
    size_t members;
  };
  std::vector<Level> levels;
  size_t members = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
      continue;
    }
    if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      levels.push_back({c == '{', 0});
      if (levels.size() > limits.depth)
        return "is nested more than " + std::to_string(limits.depth) + " levels deep";
    } else if ((c == '}' || c == ']') && !levels.empty()) {
      levels.pop_back();
    } else if (c == ':' && !levels.empty() && levels.back().object) {
      if (++levels.back().members > limits.objectMembers)
        return "has an object of more than " + std::to_string(limits.objectMembers) + " members";
      if (++members > limits.members)
        return "has more than " + std::to_string(limits.members) + " members of objects";
    }
  }
  return {};
}

} // namespace

Parsed<Json> parseJson(std::string_view text, const JsonLimits &limits) {
  if (std::string what = excess(text, limits); !what.empty())
    return Failure{400, "the body " + what, {}, {}};
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Failure{400, "the body is not valid JSON", {}, {}};
  if (!json.is_object())
    return Failure{400, "the body is no JSON object", {}, {}};
  return json;
}

std::string dump(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Failure failureOf(const Status &status, std::string field) {
  unsigned code = 500;
  switch (status.code()) {
  case Code::kInvalidArgument:
    code = 400;
    break;
  case Code::kResourceExhausted:
  case Code::kUnavailable:
  case Code::kCancelled:
    code = 503;
    break;
  default:
    break;
  }
  return {code, status.message(), code == 400 ? std::move(field) : std::string(), {}};
}

std::string failureJson(const Failure &failure) {
  const auto orNull = [](const std::string &text) { return text.empty() ? Json(nullptr) : Json(text); };
  const char *type = failure.status >= 500   ? "server_error"
                     : failure.status == 429 ? "rate_limit_error"
                     : failure.status == 401 ? "authentication_error"
                                             : "invalid_request_error";
  return dump({{"error",
                {{"message", failure.message},
                 {"type", type},
                 {"param", orNull(failure.param)},
                 {"code", orNull(failure.code)}}}});
}

} // namespace g4::server
