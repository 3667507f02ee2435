/// What the command lines of g4run and g4-runner have in common.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/Text.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::tool {

enum ExitCode { kExitOk = 0, kExitBadInput = 1, kExitBadUsage = 2, kExitOurBug = 3, kExitInterrupted = 130 };

/// Thrown where only the work finds bad usage, when all that there is to say has been said; for main to end with
/// kExitBadUsage.
struct BadUsage {};

/// The code to end with after work that gave `status`.
ExitCode exitCode(const Status &status);

/// All of `text` as a number.
template <class T> std::optional<T> parseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// "'x' is no number from 1 to 64".
template <class T> std::string noNumber(const std::string &text, T least, T most) {
  return quotedName(text) + " is no number from " + std::to_string(least) + " to " + std::to_string(most);
}

/// The words of `text`, as a shell would take them apart: between blanks; in '...' or "..." everything is part of
/// a word. Errors: kInvalidArgument for a quote that does not end.
Result<std::vector<std::string>> splitWords(std::string_view text);

/// "1,2,8": at least one number, each in [least, most]. Errors: kInvalidArgument naming what is none.
Result<std::vector<uint32_t>> parseList(const std::string &text, uint32_t least, uint32_t most);

/// The value of --ids: "2,17,301". Errors: kInvalidArgument naming what is no token id.
Result<std::vector<int32_t>> parseIds(const std::string &text);

/// The value of --weights: "seed:7". Errors: kInvalidArgument.
Result<uint64_t> parseSeed(const std::string &text);

/// Prints {"ids": [2, 17, 301]} and a line end to standard output.
void printIds(std::span<const int32_t> ids);

} // namespace g4::tool
