/// Which type each weight of a model gets: the defaults of `--quantize=TYPE` and the lines of a rules file. No MLIR.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace g4::quants {

/// A type to quantise to, by name in either case; nothing for others.
std::optional<gguf::Type> typeNamed(std::string_view name);
/// "q8_0, q6_k, ...": the names that `typeNamed` takes, for messages.
std::string typeNames();

/// A matrix of the model.
struct WeightFacts {
  std::string_view name; ///< "blk.3.attn_q.weight"
  gguf::Type stored;
  uint64_t columns;      ///< of a row
  bool isValue = false;  ///< makes V: attn_v, or attn_k of a layer that has no attn_v
};

/// Source: docs/quantisation.md has the table of defaults. Threads: one at a time.
class Recipe {
public:
  /// `base` is the type of --quantize, if given. `rules` is the text of a rules file, `rulesName` its name in messages:
  /// one rule a line, `pattern type`, the pattern a POSIX extended regular expression looked for anywhere in the weight's
  /// name, the type one of typeNames() or "keep"; what follows # is a comment. `layers` is the number of layers.
  /// Errors: kInvalidArgument, with the line; where `rulesName` is not empty, also when there is no rule.
  static Result<Recipe> make(std::optional<gguf::Type> base, std::string_view rules, std::string_view rulesName, int layers);
  Recipe(Recipe &&) noexcept;
  Recipe &operator=(Recipe &&) noexcept;
  ~Recipe();

  /// What `weight` is to become, which may be what it is. The first rule that matches decides, then the defaults of the
  /// base type, else nothing changes. Where rows are no multiple of the type's block, a type of smaller blocks and at
  /// least as many bits takes its place.
  /// Errors: kInvalidArgument when a rule's type and those fall-backs do not fit the rows.
  Result<gguf::Type> typeOf(const WeightFacts &weight);

  /// After all weights. Errors: kInvalidArgument, with the line, for a rule that no weight came to.
  Status checkUsed() const;

private:
  struct Impl;
  explicit Recipe(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::quants
