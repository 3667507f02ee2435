// g4run: runs artifacts that g4c compiled. This file maps outcomes to exit codes; Commands.h names the work.
#include "tools/g4run/Commands.h"

#include <csignal>
#include <cstdio>
#include <exception>

namespace {

// Signal handlers reach nothing but globals.
volatile std::sig_atomic_t interruptRequested = 0;

/// The first Ctrl-C ends the work at the next step; a second one ends the process.
void installInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interruptRequested = 1; };
  action.sa_flags = SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

g4::Status run(const g4::tool::Options &options) {
  using Command = g4::tool::Options::Command;
  const auto interrupted = [] { return interruptRequested != 0; };
  switch (options.command) {
  case Command::kInspect:
    return runInspect(options);
  case Command::kPerplexity:
    return runPerplexity(options, interrupted);
  case Command::kGenerate:
    break;
  }
  return runGenerate(options, interrupted);
}

} // namespace

int main(int argc, char **argv) {
  try {
    const g4::tool::Parsed parsed = g4::tool::parseOptions(argc, argv);
    if (!parsed.options)
      return parsed.exitCode;
    installInterrupt();
    g4::Status status = run(*parsed.options);
    if (std::fflush(stdout) != 0 && status.ok())
      status = g4::resourceExhausted("cannot write to standard output");
    if (!status.ok() && status.code() != g4::Code::kCancelled)
      std::fprintf(stderr, "g4run: %s\n", status.message().c_str());
    return g4::tool::exitCode(status);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "g4run: internal error: %s\n", error.what());
    return g4::tool::kExitOurBug;
  }
}
