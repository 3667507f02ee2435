/// The commands of g4run. Each prints its results to standard output; failures are the caller's to print.
#pragma once

#include "tools/g4run/Options.h"

#include <functional>
#include <string>

namespace g4::tool {

/// True once the user asked to stop.
using Interrupted = std::function<bool()>;

Status runGenerate(const Options &options, const Interrupted &interrupted);
Status runInspect(const Options &options);
Status runPerplexity(const Options &options, const Interrupted &interrupted);

/// Errors: kInvalidArgument when the file cannot be read.
Result<std::string> readTextFile(const std::string &path);

} // namespace g4::tool
