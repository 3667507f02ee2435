/// Rows of a step's logits as samplers take them.
#pragma once

#include "runtime/engine/Step.h"
#include "runtime/text/Sampler.h"

namespace g4::sched {

/// Row `row` of a step's logits, borrowed as the output is.
inline text::LogitRow logitRow(const engine::StepOutput &output, size_t row, size_t vocabulary) {
  const size_t tiles = output.tile ? vocabulary / output.tile : 0;
  return {output.logits.subspan(row * vocabulary, vocabulary), output.maxima.subspan(row * tiles, tiles),
          output.tile};
}

} // namespace g4::sched
