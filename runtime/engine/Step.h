/// What one run of the step program is asked for, and what it gives.
#pragma once

#include "runtime/engine/Tap.h"
#include "runtime/kv/KvCache.h"

#include <cstdint>
#include <span>

namespace g4::engine {

/// A ragged batch: rows of any number of sequences in any mixture of prefill and decode.
/// All spans are borrowed until Engine::run returns.
struct Step {
  std::span<const int32_t> tokens;      ///< [rows] ids, embedded as they are; a row that will carry media features has id 0
  std::span<const kv::SeqId> sequences; ///< [rows]
  std::span<const uint32_t> positions;  ///< [rows] absolute; each sequence's rows continue it without a gap
  std::span<const uint32_t> tailRows;   ///< rows whose final hidden state is wanted, ascending
  std::span<const uint32_t> logitRows;  ///< rows whose logits are wanted, ascending, all among tailRows
  /// Expert ids that MoE layers use instead of their router's: [layers, rows, experts used]. Empty: the
  /// router's.
  std::span<const int32_t> forcedExperts;
};

/// Owner: the engine; valid until its next run.
struct StepOutput {
  std::span<const float> logits; ///< [logit rows, vocabulary], row-major, after the softcap
  std::span<const float> hidden; ///< [tail rows, hidden], row-major, after the final norm
  /// [logit rows, vocabulary / tile], row-major: the largest of each `tile` logits of a row, +inf where one
  /// is NaN. Empty when the program does not give them.
  std::span<const float> maxima;
  uint32_t tile = 0;
};

/// Work done since the engine was made.
struct StepCounters {
  uint64_t steps = 0;
  uint64_t rows = 0;
  uint64_t tailRows = 0;
  uint64_t logitRows = 0;
  uint64_t dispatches = 0; ///< that had work
  uint64_t barriers = 0;   ///< between dispatches
  uint64_t macs = 0;       ///< multiplications with weights, as the module counts them
};

} // namespace g4::engine
