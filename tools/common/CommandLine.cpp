#include "tools/common/CommandLine.h"

#include <algorithm>
#include <cstdio>

namespace g4::tool {
namespace {

/// Calls `take` with each piece of "a,b,c", the empty ones too, until it fails.
template <class F> Status forPieces(const std::string &text, F take) {
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    G4_RETURN_IF_ERROR(take(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return {};
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

Result<std::vector<std::string>> splitWords(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r";
  std::vector<std::string> words;
  bool inWord = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool blank = kBlank.find(text[i]) != std::string_view::npos;
    if (!blank && !inWord)
      words.emplace_back();
    inWord = !blank;
    if (text[i] == '\'' || text[i] == '"') {
      const size_t end = text.find(text[i], i + 1);
      if (end == std::string_view::npos)
        return invalidArgument("a quote (" + std::string(1, text[i]) + ") does not end");
      words.back() += text.substr(i + 1, end - i - 1);
      i = end;
    } else if (!blank) {
      words.back() += text[i];
    }
  }
  return words;
}

Result<std::vector<uint32_t>> parseList(const std::string &text, uint32_t least, uint32_t most) {
  std::vector<uint32_t> numbers;
  G4_RETURN_IF_ERROR(forPieces(text, [&](const std::string &piece) -> Status {
    const auto number = parseNumber<uint32_t>(piece);
    if (!number || *number < least || *number > most)
      return invalidArgument(noNumber(piece, least, most));
    numbers.push_back(*number);
    return {};
  }));
  return numbers;
}

Result<std::vector<int32_t>> parseIds(const std::string &text) {
  std::vector<int32_t> ids;
  G4_RETURN_IF_ERROR(forPieces(text, [&](const std::string &piece) -> Status {
    const auto id = parseNumber<int32_t>(piece);
    if (!id || *id < 0)
      return invalidArgument(quotedName(piece) + " is not a token id");
    ids.push_back(*id);
    return {};
  }));
  return ids;
}

Result<uint64_t> parseSeed(const std::string &text) {
  const auto seed =
      text.starts_with("seed:") ? parseNumber<uint64_t>(std::string_view(text).substr(5)) : std::nullopt;
  return seed ? Result<uint64_t>(*seed) : invalidArgument(quotedName(text) + " is not seed:N");
}

void printIds(std::span<const int32_t> ids) {
  std::fputs("{\"ids\": [", stdout);
  for (size_t i = 0; i < ids.size(); ++i)
    std::printf("%s%d", i ? ", " : "", ids[i]);
  std::fputs("]}\n", stdout);
}

} // namespace g4::tool
