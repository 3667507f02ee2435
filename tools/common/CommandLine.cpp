#include "tools/common/CommandLine.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace g4::tool {
namespace {

template <class T> bool parseNumber(std::string_view text, T &out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

} // namespace

ExitCode exitCode(const Status &status) {
  switch (status.code()) {
  case Code::kOk:
    return kExitOk;
  case Code::kInternal:
    return kExitOurBug;
  case Code::kCancelled:
    return kExitInterrupted;
  default:
    return kExitBadInput;
  }
}

Result<std::vector<int32_t>> parseIds(const std::string &text) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int32_t id = 0;
    if (!parseNumber(std::string_view(text).substr(at, comma - at), id) || id < 0)
      return invalidArgument("'" + text.substr(at, comma - at) + "' is not a token id");
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

Result<uint64_t> parseSeed(const std::string &text) {
  uint64_t seed = 0;
  if (!text.starts_with("seed:") || !parseNumber(std::string_view(text).substr(5), seed))
    return invalidArgument("'" + text + "' is not seed:N");
  return seed;
}

void printIds(std::span<const int32_t> ids) {
  std::fputs("{\"ids\": [", stdout);
  for (size_t i = 0; i < ids.size(); ++i)
    std::printf("%s%d", i ? ", " : "", ids[i]);
  std::fputs("]}\n", stdout);
}

} // namespace g4::tool
