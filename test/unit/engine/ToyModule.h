/// Builds the toy artifact of kernels/ToyKernels.c through the real writer.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace g4::engine {

struct ToyOptions {
  std::string object; ///< path of the shared object with the kernels
  bool weightsMissing = false;
  std::string weightLayout = "vector";
  std::vector<std::string> features = {}; ///< that the code variant says it needs
  uint32_t maximaColumns = 4;             ///< of the output logit_maxima; 0: there is none
};

inline constexpr uint32_t kToyVocabulary = 32, kToyHidden = 4, kToyWindow = 100, kToyMaxRows = 96,
                          kToyContext = 4096, kToyMaxLogitRows = 48;

/// Writes the artifact to `path`.
Status writeToyModule(const std::string &path, const ToyOptions &options);

/// What the toy model gives for tokens[0..p] at position p: {hidden[0], hidden[1]}.
struct ToyHidden {
  float window, all;
};
ToyHidden toyHidden(const std::vector<int32_t> &tokens, size_t position);

} // namespace g4::engine
