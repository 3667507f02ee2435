/// g4run's command line as a whole.
#pragma once

#include "tools/common/CommandLine.h"
#include "tools/g4run/Commands.h"

#include <optional>

namespace g4::tool {

/// What to do, or the code to end with: what there was to say has been said.
struct Parsed {
  Run run; ///< empty: nothing
  int exitCode = kExitOk;
};
Parsed parseCommandLine(int argc, char **argv);

} // namespace g4::tool
