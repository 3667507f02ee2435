/// What kind of Gemma 4 model a file holds: sizes and per-layer shapes, from the weights where they say it.
#pragma once

#include "compiler/import/Source.h"

#include <optional>
#include <vector>

namespace g4::importer {

struct LayerFacts {
  bool sliding = false;
  bool sharesKv = false;
  int64_t heads = 0;
  int64_t kvHeads = 0; ///< the donor's when the layer shares K/V
  int64_t headDim = 0;
  int64_t ff = 0;
  int64_t experts = 0; ///< 0: none
  int64_t expertFf = 0;
  bool valueIsKey = false; ///< no V projection: V is the raw K projection, normed
};

struct ModelFacts {
  int64_t hidden = 0;
  int64_t vocabulary = 0;
  int64_t contextLength = 0;
  int64_t window = 0;
  int64_t expertsUsed = 0;
  int64_t perLayerWidth = 0;
  float eps = 0;
  float softcap = 0;
  double ropeBaseSliding = 0;
  double ropeBaseGlobal = 0;
  int64_t ropeDimSliding = 0;
  int64_t ropeDimGlobal = 0;
  int64_t ropeTurning = 0;     ///< pairs that turn in global layers where no tensor says it; 0: a tensor does
  bool hasOutputScale = false; ///< layer_output_scale, in every layer or in none
  std::vector<LayerFacts> layers;
};

/// `blk.<layer>.<name>`.
std::string layerName(int64_t layer, llvm::StringRef name);

/// The tensor of the global layers' rope factors.
inline constexpr const char *kRopeFactors = "rope_freqs.weight";

/// Nothing after an error diagnostic. Metadata that disagrees with the weights is a warning.
std::optional<ModelFacts> readFacts(const Source &source);

} // namespace g4::importer
