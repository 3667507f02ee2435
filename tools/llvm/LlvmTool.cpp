#include "tools/llvm/LlvmTool.h"
#include "tools/common/CommandLine.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <unistd.h>

using namespace llvm;

namespace g4::tool {

void badUsage(StringRef program, const Twine &message) {
  errs() << program << ": " << message << " (see " << program << " --help)\n";
  exit(kExitBadUsage);
}

namespace {

/// What the first pair of quotes encloses, without the dashes of an option.
StringRef quotedOption(StringRef text) { return text.split('\'').second.split('\'').first.ltrim('-'); }

/// Whether LLVM's suggestion, which it always has, is like what was given.
bool isNear(StringRef given, StringRef suggestion) {
  const StringRef name = quotedOption(given).split('=').first;
  return quotedOption(suggestion).split('=').first.edit_distance(name) <= (name.size() + 1) / 3;
}

} // namespace

void parseLlvmOptions(StringRef program, int argc, char **argv, StringRef overview) {
  std::string message;
  raw_string_ostream errors(message);
  if (cl::ParseCommandLineOptions(argc, argv, overview, &errors))
    return;
  const std::string prefix = (sys::path::filename(argv[0]) + ": ").str();
  auto [first, rest] = StringRef(message).split('\n');
  first.consume_front(prefix);
  first = first.split(".  Try: ").first.trim(); // LLVM's own hint at --help
  rest = rest.split('\n').first.trim();
  rest.consume_front(prefix);
  if (first.empty())
    exit(kExitBadUsage); // a value that does not parse: LLVM has said so by itself
  badUsage(program, first + (isNear(first, rest) && rest.consume_front("Did") ? ", did" + rest : Twine()));
}

void reportFatalErrors(const char *program) {
  install_fatal_error_handler(
      [](void *data, const char *reason, bool) {
        StringRef what(reason);
        const bool output = what.consume_front("IO failure on output stream");
        std::fprintf(stderr,
                     output ? "%s: error: cannot write to standard output%s\n" : "%s: internal error: %s\n",
                     static_cast<const char *>(data), what.str().c_str());
        _exit(output ? kExitBadInput : kExitOurBug);
      },
      const_cast<char *>(program));
}

} // namespace g4::tool
