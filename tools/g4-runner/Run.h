/// What g4-runner does with an artifact.
#pragma once

#include "tools/g4-runner/Options.h"

namespace g4::runner {

/// Prints results to standard output and, if asked, times to standard error. Errors: those of the module's loader, of
/// the engine, and of the file that --logits names.
Status run(const Options &options);

} // namespace g4::runner
