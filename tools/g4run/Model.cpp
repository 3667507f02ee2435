#include "tools/g4run/Model.h"
#include "runtime/base/Text.h"
#include "tools/g4run/Interrupt.h"

#include <chrono>
#include <cstdio>

namespace g4::tool {
namespace {

ArtifactCache::Request requestFor(const ModelFlags &flags) {
  auto words = splitWords(flags.compileOptions); // which the command line's check has passed
  return {flags.path, words.ok() ? *std::move(words) : std::vector<std::string>(), flags.cacheLimit};
}

} // namespace

Result<Artifact> findArtifact(const ModelFlags &flags, const Interrupted &interrupted) {
  if (!isGguf(flags.path)) {
    if (!flags.compileOptions.empty())
      return invalidArgument(quotedPath(flags.path) + ": --compile-options is for GGUF files");
    return Artifact{flags.path, {}};
  }
  G4_ASSIGN_OR_RETURN(const ArtifactCache cache, ArtifactCache::open());
  const DeferredEnd deferred; // else a SIGTERM would leave the lock file
  G4_ASSIGN_OR_RETURN(CachedArtifact cached,
                      cache.compiled(requestFor(flags), [&] { return interrupted() || deferred.asked(); }));
  return Artifact{std::move(cached.path), std::move(cached.lock)};
}

FileUses usesOf(const ModelFlags &flags, std::initializer_list<std::string> inputs) {
  FileUses uses(inputs);
  uses.reads(flags.path);
  if (!isGguf(flags.path))
    return uses;
  for (std::string &part : partsOf(flags.path))
    uses.reads(std::move(part));
  if (const auto cache = ArtifactCache::open(); cache.ok()) // else opening the model fails
    if (auto artifact = cache->pathFor(requestFor(flags)); artifact.ok())
      uses.reads(*std::move(artifact));
  return uses;
}

Result<OpenModel> openModel(const ModelFlags &flags, const Interrupted &interrupted,
                            api::ModelOptions options) {
  options.threads = flags.threads;
  options.variant = flags.variant;
  options.contextTokens = flags.context;
  options.weightSeed = flags.weightSeed;
  OpenModel out;
  G4_ASSIGN_OR_RETURN(out.artifact, findArtifact(flags, interrupted));
  const auto begin = std::chrono::steady_clock::now();
  G4_ASSIGN_OR_RETURN(out.model, api::Model::open(out.artifact.path, options));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

void noteTemplate(const api::Model &model) {
  if (model.usesBuiltInTemplate())
    std::fputs("g4run: note: the model file has no chat template: Gemma 4's turns are used (a base model "
               "knows none: "
               "see --raw)\n",
               stderr);
}

} // namespace g4::tool
