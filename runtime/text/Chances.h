/// How probable tokens were: the model's own distribution, before any sampling option.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace g4::text {

struct Chance {
  int32_t id;
  float logprob; ///< natural logarithm
};

struct Chances {
  Chance token;            ///< the one that was chosen, or that stands in the prompt
  std::vector<Chance> top; ///< the most probable, best first; of equal ones the lowest id first
};

/// `logits`: a row of the whole vocabulary, `id` inside it; `top` is cut to its size.
Chances chancesOf(std::span<const float> logits, int32_t id, uint32_t top);

} // namespace g4::text
