#include "runtime/api/g4.h"
#include "tools/g4run/Commands.h"
#include "tools/g4run/Progress.h"

#include <cstdio>

namespace g4::tool {

Status runPerplexity(const Options &options, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(const std::string text, readTextFile(options.text));
  api::ModelOptions modelOptions;
  modelOptions.threads = options.threads;
  modelOptions.variant = options.variant;
  modelOptions.weightSeed = options.weightSeed;
  G4_ASSIGN_OR_RETURN(const auto model, api::Model::open(options.model, modelOptions));
  auto measured = [&] {
    Progress progress("perplexity", "windows");
    return api::perplexity(*model, text, options.window, [&](uint32_t done, uint32_t total, double) {
      progress.update(done, total);
      return !interrupted();
    });
  }();
  if (!measured.ok())
    return measured.status();
  std::printf("perplexity %.4f +- %.4f (%llu tokens scored in %u windows of %u)\n", measured->value,
              measured->error, static_cast<unsigned long long>(measured->scored), measured->windows,
              options.window);
  return {};
}

} // namespace g4::tool
