/// Runs a `gemma.model` in f32: slow, obvious code that says what the ops mean. The oracle of tests; never
/// serves a user.
#pragma once

#include "compiler/reference/Kernels.h"
#include "dialects/gemma/GemmaDialect.h"
#include "runtime/base/Status.h"

#include <map>
#include <string>
#include <vector>

namespace g4::reference {

struct EvaluateOptions {
  std::vector<int32_t> ids; ///< one sequence, at positions 0, 1, ...; all its positions are the body rows
  /// Positions of the tail and logits rows, rising, each a subset of the one before; nothing means all of it.
  std::optional<std::vector<int64_t>> tailRows, logitsRows;
  /// Experts to take instead of the router's, by layer: [ids, experts used], for every position. Their
  /// weights are still the router's.
  std::map<int64_t, std::vector<int32_t>> forcedExperts;
};

/// A named intermediate value: "h_layer3", "router_idx0" and so on (see `getTapName`), one row for each row
/// of `rows`. Per-layer inputs are one tap for each layer, however they were computed.
struct Tap {
  gemma::RowSet rows = gemma::RowSet::kBody;
  Matrix values;
  std::vector<int32_t> ids; ///< instead of `values`, where the tap holds ids: [rows, columns]
};

struct Evaluation {
  Matrix logits; ///< [logits rows, vocabulary], after the soft cap
  Matrix hidden; ///< [tail rows, hidden], after the final norm
  std::map<std::string, Tap> taps;
};

/// Takes the import form (donors are resolved as gemma-resolve-donors would) and every later form of the
/// dialect. Weights are read from the module's files, row by row. The model must have passed its verifier.
/// Threads: one per context.
/// Errors:  kInvalidArgument for ids outside the vocabulary, row sets that are not subsets, unreadable
/// weights.
Result<Evaluation> evaluate(gemma::ModelOp model, const EvaluateOptions &options);

} // namespace g4::reference
