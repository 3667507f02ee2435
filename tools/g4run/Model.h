/// From a path on the command line to an open model.
#pragma once

#include "runtime/api/g4.h"
#include "tools/common/Files.h"
#include "tools/g4run/ArtifactCache.h"
#include "tools/g4run/Options.h"

namespace g4::tool {

/// An artifact's path, and what keeps it there.
struct Artifact {
  std::string path;
  CacheLock lock; ///< of one in the cache
};

/// `flags.path` itself, or for a GGUF file what the cache has for it, compiled if need be.
/// Errors: kInvalidArgument (no such file, no compiler), kCancelled, or with an empty message when g4c has
/// said why.
Result<Artifact> findArtifact(const ModelFlags &flags, const Interrupted &interrupted);

/// What opening the model reads (all parts of a GGUF file, and its artifact in the cache), and `inputs`.
FileUses usesOf(const ModelFlags &flags, std::initializer_list<std::string> inputs = {});

struct OpenModel {
  Artifact artifact;
  std::unique_ptr<api::Model> model;
  double seconds = 0; ///< that opening the artifact took
};
/// `options` has what the flags do not say.
Result<OpenModel> openModel(const ModelFlags &flags, const Interrupted &interrupted,
                            api::ModelOptions options = {});

/// Tells a person, on standard error, where a conversation is not written by the model's own template.
void noteTemplate(const api::Model &model);

} // namespace g4::tool
