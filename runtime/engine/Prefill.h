/// Feeds a list of tokens to one sequence in steps of bounded size.
#pragma once

#include "runtime/engine/Engine.h"

namespace g4::engine {

enum class Want : uint8_t {
  kNothing, ///< no row needs results: the part of the model past the last K/V projection does not run
  kLast,    ///< logits and hidden state of the last token
  kAll,     ///< of every token
};

struct PrefillOptions {
  uint32_t chunk = 0; ///< most rows per step; 0, or more than the program holds: as many as it holds
  Want want = Want::kLast;
  /// [layers, tokens, experts used], or empty: Step::forcedExperts of the whole list.
  std::span<const int32_t> forcedExperts = {};
};

/// Called after each step. `first`: index in `tokens` of the step's first row. A failure ends the prefill.
using ChunkFn = std::function<Status(uint32_t first, uint32_t rows, const StepOutput &output)>;

/// Appends `tokens` to `seq`. How they are cut does not change the results.
/// Errors: those of Engine::run and of the callbacks; the tokens of steps that finished stay in the sequence.
Status prefill(Engine &engine, kv::SeqId seq, std::span<const int32_t> tokens, const PrefillOptions &options,
               const ChunkFn &onChunk = nullptr, const TapFn &onTap = nullptr);

} // namespace g4::engine
