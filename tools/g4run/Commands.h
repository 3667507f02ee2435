/// The commands of g4run. Each prints its results to standard output; failures are the caller's to print.
#pragma once

#include "runtime/base/Status.h"

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace g4::tool {

/// True once the user asked to stop.
using Interrupted = std::function<bool()>;
/// What the command line asked for.
using Run = std::function<Status(const Interrupted &)>;

/// Each declares a command on g4run's `app`; if the command line names it, `run` becomes its work.
void addChat(CLI::App &app, Run &run);
void addInspect(CLI::App &app, Run &run);
void addPerplexity(CLI::App &app, Run &run);
void addKl(CLI::App &app, Run &run);
void addTokenize(CLI::App &app, Run &run);
void addBench(CLI::App &app, Run &run);
void addCache(CLI::App &app, Run &run);
void addServe(CLI::App &app, Run &run);
void addReplay(CLI::App &app, Run &run);
void addLoadTest(CLI::App &app, Run &run);
void addCompletion(CLI::App &app, Run &run);

struct GenerateOptions;
Status runGenerate(const GenerateOptions &options, const Interrupted &interrupted);
Status runJsonl(const GenerateOptions &options, const Interrupted &interrupted);

} // namespace g4::tool
