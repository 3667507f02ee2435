/// g4c's options as data, for completion and the manual page.
#pragma once

#include "tools/common/CommandSpec.h"

#include "llvm/Support/CommandLine.h"

namespace g4::g4c {

/// The options of `category`. `choices`: values by option name, where only these are allowed.
/// `overview`: a line of what the program does, an empty line, examples.
tool::CommandSpec describe(llvm::cl::OptionCategory &category, llvm::StringRef overview,
                           const llvm::StringMap<std::vector<std::string>> &choices);

} // namespace g4::g4c
