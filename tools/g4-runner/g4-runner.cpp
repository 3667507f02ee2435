// g4-runner: runs artifacts on token ids, with nothing but libc. See Run.h.
#include "runtime/base/Guard.h"
#include "tools/common/Files.h"
#include "tools/g4-runner/Run.h"

#include <cstdio>

int main(int argc, char **argv) {
  const auto run = [&]() -> g4::Result<g4::tool::ExitCode> {
    g4::tool::reserveStandardStreams();
    const g4::runner::Parsed parsed = g4::runner::parseOptions(argc, argv);
    if (parsed.options)
      G4_RETURN_IF_ERROR(g4::runner::run(*parsed.options));
    G4_RETURN_IF_ERROR(g4::tool::flushOutput());
    return parsed.exitCode;
  };
  const auto code = g4::guarded(run);
  if (code.ok())
    return *code;
  if (!code.status().message().empty())
    std::fprintf(stderr, "g4-runner: %s\n", code.status().message().c_str());
  return g4::tool::exitCode(code.status());
}
