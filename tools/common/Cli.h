/// What the programs that use CLI11 have in common: help, completion and a manual page in the same words, and
/// bad usage as one line.
#pragma once

#include "tools/common/CommandLine.h"
#include "tools/common/CommandSpec.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <limits>
#include <optional>

namespace g4::tool {

/// A value that was parsed, or CLI11's error for `option`.
template <class T> T valid(const std::string &option, Result<T> parsed) {
  if (!parsed.ok())
    throw CLI::ValidationError(option, parsed.status().message());
  return *std::move(parsed);
}

/// A whole number of `T` from `least` to `most`.
template <class T> CLI::Validator wholeNumber(T least = 0, T most = std::numeric_limits<T>::max()) {
  return CLI::Validator(
      [least, most](const std::string &text) -> std::string {
        const auto value = parseNumber<T>(text);
        return value && *value >= least && *value <= most ? "" : noNumber(text, least, most);
      },
      "");
}

/// Gives `app` its --help, --version and, hidden, --man. Commands that are added later inherit the help.
/// `version`: "g4run 0.1.0".
void addStandardFlags(CLI::App &app, const std::string &version);

/// --completion=SHELL, for a program without commands.
void addCompletionFlag(CLI::App &app);

/// The options of `app` and its commands, for completion and the manual page.
CommandSpec describe(const CLI::App &app);

/// Parses, then runs `check`, which may throw CLI11's errors too. Returns the code to end with when all is
/// done: help was asked for, or the usage is bad and one line on standard error has said so.
std::optional<ExitCode> parseArguments(CLI::App &app, int argc, char **argv,
                                       const std::function<void()> &check);

} // namespace g4::tool
