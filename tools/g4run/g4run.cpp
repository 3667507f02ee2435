// g4run: runs artifacts that g4c compiled. This file maps outcomes to exit codes; Commands.h names the work.
#include "tools/common/Files.h"
#include "tools/g4run/Interrupt.h"
#include "tools/g4run/Program.h"

#include <cstdio>
#include <exception>

int main(int argc, char **argv) {
  try {
    g4::tool::reserveStandardStreams();
    const g4::tool::Parsed parsed = g4::tool::parseCommandLine(argc, argv);
    g4::tool::installInterrupt();
    g4::Status status = parsed.run ? parsed.run(g4::tool::interrupted) : g4::Status();
    // Work that stopped because its output went nowhere calls itself cancelled.
    if (g4::Status printed = g4::tool::flushOutput();
        !printed.ok() && (status.ok() || status.code() == g4::Code::kCancelled))
      status = std::move(printed);
    // An empty message: a program that was started for this has said why.
    if (!status.ok() && status.code() != g4::Code::kCancelled && !status.message().empty())
      std::fprintf(stderr, "g4run: %s\n", status.message().c_str());
    return status.ok() ? parsed.exitCode : g4::tool::exitCode(status);
  } catch (const g4::tool::BadUsage &) {
    return g4::tool::kExitBadUsage;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "g4run: internal error: %s\n", error.what());
    return g4::tool::kExitOurBug;
  }
}
