/// What the programs with LLVM's command line have in common with those of CLI11: errors of one line, exit
/// codes.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

namespace g4::tool {

/// Prints "PROGRAM: message (see PROGRAM --help)" to standard error and ends with kExitBadUsage.
[[noreturn]] void badUsage(llvm::StringRef program, const llvm::Twine &message);

/// LLVM's parser of the options that were declared. Bad usage ends the program, --help and --version too.
void parseLlvmOptions(llvm::StringRef program, int argc, char **argv, llvm::StringRef overview);

/// For the start of main: what LLVM itself cannot go on after is one line. Output that cannot be written,
/// which it finds out when the program ends, is a failure, all else a bug of ours. `program` must live on.
void reportFatalErrors(const char *program);

} // namespace g4::tool
