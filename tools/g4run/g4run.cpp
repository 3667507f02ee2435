// g4run: runs artifacts that g4c compiled. This file maps outcomes to exit codes; Commands.h names the work.
#include "tools/g4run/Interrupt.h"
#include "tools/g4run/Program.h"

#include <cstdio>
#include <exception>

int main(int argc, char **argv) {
  try {
    const g4::tool::Parsed parsed = g4::tool::parseCommandLine(argc, argv);
    if (!parsed.run)
      return parsed.exitCode;
    g4::tool::installInterrupt();
    g4::Status status = parsed.run(g4::tool::interrupted);
    if (std::fflush(stdout) != 0 && status.ok())
      status = g4::resourceExhausted("cannot write to standard output");
    // An empty message: a program that was started for this has said why.
    if (!status.ok() && status.code() != g4::Code::kCancelled && !status.message().empty())
      std::fprintf(stderr, "g4run: %s\n", status.message().c_str());
    return g4::tool::exitCode(status);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "g4run: internal error: %s\n", error.what());
    return g4::tool::kExitOurBug;
  }
}
