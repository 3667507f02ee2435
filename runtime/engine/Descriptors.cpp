#include "runtime/engine/Descriptors.h"

#include <algorithm>
#include <cmath>

namespace g4::engine {

using module::kCountSlots;

RopeAngles::RopeAngles(uint32_t dim, double base, std::span<const float> factors) : frequencies_(dim / 2) {
  for (size_t j = 0; j < frequencies_.size(); ++j)
    frequencies_[j] = std::pow(base, -2.0 * double(j) / dim) / (factors.empty() ? 1.0 : double(factors[j]));
}

void RopeAngles::write(uint32_t position, float *out) const {
  const size_t half = frequencies_.size();
  for (size_t j = 0; j < half; ++j) {
    const double angle = position * frequencies_[j];
    // Files mark unrotated pairs with a factor of 1e30: cos 1 and sin 0, without asking libm.
    const bool rotated = angle > 1e-12;
    out[j] = rotated ? float(std::cos(angle)) : 1.0f;
    out[half + j] = rotated ? float(std::sin(angle)) : float(angle);
  }
}

Result<Descriptors> Descriptors::create(device::Device &device, const StepLimits &limits, RopeAngles sliding,
                                        RopeAngles global) {
  Descriptors d;
  d.limits_ = limits;
  d.sliding_ = std::move(sliding);
  d.global_ = std::move(global);
  const uint64_t rows = limits.rows, blocks = uint64_t(limits.sequences) * limits.blocks;
  // All elements are four bytes wide.
  const std::array<uint64_t, kSlotCount> elements = {uint64_t(kCountSlots),
                                                     rows,
                                                     rows,
                                                     rows,
                                                     rows,
                                                     limits.tailRows,
                                                     limits.logitRows,
                                                     blocks,
                                                     blocks,
                                                     rows * d.sliding_.dim(),
                                                     rows * d.global_.dim(),
                                                     rows * limits.layers * limits.expertsUsed};
  std::array<uint64_t, kSlotCount> offsets{};
  uint64_t bytes = 0;
  for (size_t i = 0; i < kSlotCount; ++i) {
    offsets[i] = bytes;
    bytes += (4 * elements[i] + 63) / 64 * 64; // whole vectors may be loaded from an array's start
  }
  G4_ASSIGN_OR_RETURN(d.memory_, device.allocate(bytes, device::Pages::kSmall));
  for (size_t i = 0; i < kSlotCount; ++i)
    d.slots_[i] = d.memory_->data() + offsets[i];
  return d;
}

void Descriptors::bind(const Step &step, const kv::KvCache &cache) {
  const size_t rows = step.tokens.size();
  stepSequences_.clear();
  for (size_t i = 0; i < rows; ++i) {
    const int32_t token = step.tokens[i];
    as<int32_t>(kTokens)[i] = token;
    as<int32_t>(kPositions)[i] = int32_t(step.positions[i]);
    as<int32_t>(kRowMap)[i] = int32_t(i);
    // The sequence of the row before is the usual case; a step has few sequences.
    auto found = stepSequences_.end();
    if (i && step.sequences[i] == step.sequences[i - 1])
      found = stepSequences_.begin() + as<int32_t>(kSequences)[i - 1];
    else
      found = std::find(stepSequences_.begin(), stepSequences_.end(), step.sequences[i]);
    as<int32_t>(kSequences)[i] = int32_t(found - stepSequences_.begin());
    if (found == stepSequences_.end())
      stepSequences_.push_back(step.sequences[i]);
    sliding_.write(step.positions[i], as<float>(kRopeSliding) + i * sliding_.dim());
    global_.write(step.positions[i], as<float>(kRopeGlobal) + i * global_.dim());
  }
  for (size_t i = 0; i < step.tailRows.size(); ++i)
    as<int32_t>(kTailMap)[i] = int32_t(step.tailRows[i]);
  for (size_t i = 0, tail = 0; i < step.logitRows.size(); ++i) {
    while (step.tailRows[tail] != step.logitRows[i])
      ++tail;
    as<int32_t>(kLogitMap)[i] = int32_t(tail);
  }

  size_t most[kv::kPageClasses] = {};
  for (size_t c = 0; c < kv::kPageClasses; ++c) {
    for (kv::SeqId seq : stepSequences_)
      most[c] = std::max(most[c], cache.blocks(seq, kv::PageClass(c)).size());
    int32_t *table = as<int32_t>(c ? kBlocksGlobal : kBlocksSliding);
    for (kv::SeqId seq : stepSequences_) {
      const auto blocks = cache.blocks(seq, kv::PageClass(c));
      std::copy(blocks.begin(), blocks.end(), table);
      std::fill(table + blocks.size(), table + most[c], kv::kNoPage);
      table += most[c];
    }
  }
  for (uint32_t layer = 0; !step.forcedExperts.empty() && layer < limits_.layers; ++layer) {
    const auto choices =
        step.forcedExperts.subspan(layer * rows * limits_.expertsUsed, rows * limits_.expertsUsed);
    std::copy(choices.begin(), choices.end(),
              as<int32_t>(kForcedExperts) + size_t(layer) * limits_.rows * limits_.expertsUsed);
  }

  int32_t *counts = as<int32_t>(kCounts);
  counts[module::kCountRows] = int32_t(rows);
  counts[module::kCountTail] = int32_t(step.tailRows.size());
  counts[module::kCountLogits] = int32_t(step.logitRows.size());
  counts[module::kCountBlocksSliding] = int32_t(most[0]);
  counts[module::kCountBlocksGlobal] = int32_t(most[1]);
  counts[module::kCountForced] = step.forcedExperts.empty() ? 0 : 1;
}

} // namespace g4::engine
