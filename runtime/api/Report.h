/// What is inside an artifact, for people and for tests. Needs no machine that can run it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/module/MemoryUse.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace g4::api {

struct LayerReport {
  bool sliding, ownKv;
  uint32_t kvSource, heads, kvHeads, headDim, ff, experts;
};

struct SegmentReport {
  std::string kind, name;
  uint64_t bytes;
  bool present; ///< false: an artifact compiled without weights
};

struct VariantReport {
  std::string target, cpu;
  std::vector<std::string> features;
  uint64_t bytes;
  bool runsHere;
};

struct DispatchReport {
  std::string kernel;
  int32_t layer; ///< -1: none
  bool barrierBefore;
  std::string set; ///< row set of its grid
  uint32_t rowsPerItem, itemsPerBlock;
  uint64_t macsPerRow;
  std::vector<std::string> taps;
};

struct BufferReport {
  std::string name, set;
  uint64_t rowBytes, offset, bytes;
};

struct ProgramReport {
  std::string name;
  uint32_t maxRows, maxTailRows, maxLogitRows;
  uint64_t arenaBytes, peakLiveBytes;
  std::vector<DispatchReport> dispatches;
  std::vector<BufferReport> buffers;
  /// Multiplications with weights for one row of a set, over all dispatches. A prompt token that nobody asks
  /// about costs macsRows; one whose hidden state is wanted macsTail more; one whose logits are wanted
  /// macsLogits more.
  uint64_t macsRows, macsTail, macsLogits;
};

struct WeightPlaceReport {
  std::string place;
  uint64_t count, bytes;
};

struct WeightReport {
  std::string name, layout, place;
  uint64_t rows, columns, bytes;
};

struct KvClassReport {
  std::string name; ///< "sliding", "global"
  uint32_t layers;
  uint64_t bytesPerToken; ///< all layers of the class together
  uint64_t pageBytes;     ///< one page, all layers of the class together
};

struct Report {
  std::string path, producer, name, architecture, source, activations, kvType;
  uint64_t fileBytes;
  bool weightsMissing;
  uint32_t vocabulary, hidden, context, window, pageTokens, expertsUsed;
  float softcap;
  std::vector<LayerReport> layers;
  std::vector<SegmentReport> segments;
  std::vector<VariantReport> variants;
  std::vector<WeightPlaceReport> places;
  std::vector<WeightReport> weights;
  std::vector<KvClassReport> kv;
  std::vector<std::string> kernels;
  std::vector<ProgramReport> programs;
  module::MemoryUse inUse;
};

/// Maps and checks the artifact at `path`; hashes its weights too if `verify`.
/// `onProgress(done, total)` in bytes hashed. Errors: those of loading an artifact.
Result<Report> inspect(const std::string &path, bool verify,
                       const std::function<void(uint64_t, uint64_t)> &onProgress = nullptr);

/// This machine's CPU features, as code variants name them.
std::vector<std::string> hostFeatures();

} // namespace g4::api
