// g4-runner: runs artifacts on token ids, with nothing but libc. See Run.h.
#include "runtime/base/Guard.h"
#include "tools/g4-runner/Run.h"

#include <cstdio>

int main(int argc, char **argv) {
  const auto run = [&]() -> g4::Result<g4::tool::ExitCode> {
    const g4::runner::Parsed parsed = g4::runner::parseOptions(argc, argv);
    if (!parsed.options)
      return parsed.exitCode;
    G4_RETURN_IF_ERROR(g4::runner::run(*parsed.options));
    if (std::fflush(stdout) != 0)
      return g4::resourceExhausted("cannot write to standard output");
    return g4::tool::kExitOk;
  };
  const auto code = g4::guarded(run);
  if (code.ok())
    return *code;
  std::fprintf(stderr, "g4-runner: %s\n", code.status().message().c_str());
  return g4::tool::exitCode(code.status());
}
