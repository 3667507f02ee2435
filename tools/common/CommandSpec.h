/// What a program's command line takes, independent of the library that parses it. From it come shell
/// completion and the manual page, so neither is written by hand.
#pragma once

#include <string>
#include <vector>

namespace g4::tool {

struct OptionSpec {
  std::vector<std::string> names; ///< "-n", "--temp"; empty: a positional argument
  std::string value;              ///< placeholder, "FILE"; empty: a flag
  std::string help;
  std::vector<std::string> choices; ///< the values there are; empty: any

  /// FILE and FOLDER are completed as paths.
  bool takesPath() const { return value.starts_with("FILE") || value == "FOLDER"; }
};

struct CommandSpec {
  std::string name, summary;
  std::string notes; ///< examples and exit codes, as --help prints them
  std::vector<OptionSpec> options, positionals;
  std::vector<CommandSpec> commands;
};

/// A script for `shell`: "bash", "zsh" or "fish"; empty for any other.
std::string completionScript(const CommandSpec &program, const std::string &shell);

/// A page in man's format, section 1. `version`: "g4run 0.1.0".
std::string manPage(const CommandSpec &program, const std::string &version);

} // namespace g4::tool
