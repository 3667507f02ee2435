#include "runtime/engine/Prefill.h"

#include <algorithm>
#include <numeric>

namespace g4::engine {
namespace {

/// Rows [first, first + rows) of every layer of [layers, total, used].
void cutRows(std::span<const int32_t> all, uint32_t layers, uint32_t used, size_t total, size_t first,
             size_t rows, std::vector<int32_t> &out) {
  out.clear();
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const auto part = all.subspan((layer * total + first) * used, rows * used);
    out.insert(out.end(), part.begin(), part.end());
  }
}

} // namespace

Status prefill(Engine &engine, kv::SeqId seq, std::span<const int32_t> tokens, const PrefillOptions &options,
               const ChunkFn &onChunk, const TapFn &onTap) {
  const EngineLimits &limits = engine.limits();
  if (!options.forcedExperts.empty() &&
      options.forcedExperts.size() != uint64_t(limits.layers) * tokens.size() * limits.expertsUsed)
    return invalidArgument("forced experts must be [" + std::to_string(limits.layers) + " layers, " +
                           std::to_string(tokens.size()) + " tokens, " + std::to_string(limits.expertsUsed) +
                           " used]");
  uint32_t chunk = options.chunk ? std::min(options.chunk, limits.rows) : limits.rows;
  if (options.want == Want::kAll)
    chunk = std::min({chunk, limits.tailRows, limits.logitRows});
  G4_ASSIGN_OR_RETURN(const uint32_t start, engine.length(seq));
  if (tokens.size() > limits.contextTokens - std::min(start, limits.contextTokens))
    return invalidArgument(std::to_string(start + uint64_t(tokens.size())) + " tokens, but the context is " +
                           std::to_string(limits.contextTokens));

  std::vector<kv::SeqId> sequences(std::min<size_t>(chunk, tokens.size()), seq);
  std::vector<uint32_t> positions(sequences.size()), all(sequences.size());
  std::iota(all.begin(), all.end(), 0u);
  std::vector<int32_t> forced;
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    const size_t rows = std::min<size_t>(chunk, tokens.size() - first);
    std::iota(positions.begin(), positions.end(), uint32_t(start + first));
    Step step;
    step.tokens = tokens.subspan(first, rows);
    step.sequences = std::span(sequences).first(rows);
    step.positions = std::span(positions).first(rows);
    if (options.want == Want::kAll)
      step.tailRows = std::span(all).first(rows);
    else if (options.want == Want::kLast && first + rows == tokens.size())
      step.tailRows = std::span(all).subspan(rows - 1, 1);
    step.logitRows = step.tailRows;
    if (!options.forcedExperts.empty()) {
      cutRows(options.forcedExperts, limits.layers, limits.expertsUsed, tokens.size(), first, rows, forced);
      step.forcedExperts = forced;
    }
    G4_ASSIGN_OR_RETURN(const StepOutput output, engine.run(step, onTap));
    if (onChunk)
      G4_RETURN_IF_ERROR(onChunk(uint32_t(first), uint32_t(rows), output));
  }
  return {};
}

} // namespace g4::engine
