/// The arrays that describe a step to the kernels: module/StepAbi.h says what each holds.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/engine/Step.h"
#include "runtime/module/StepAbi.h"

#include <array>
#include <memory>
#include <vector>

namespace g4::engine {

/// cos and sin of one layer kind's rotation. angle(p, j) = p * base^(-2j/dim) / factor[j], in double: at
/// position 131,071 a float angle would be off by 0.008.
class RopeAngles {
public:
  RopeAngles() = default;
  /// `factors`: dim/2 divisors, or empty for all ones.
  RopeAngles(uint32_t dim, double base, std::span<const float> factors);
  uint32_t dim() const { return uint32_t(2 * frequencies_.size()); }
  /// Writes `dim` floats: dim/2 cosines, then dim/2 sines.
  void write(uint32_t position, float *out) const;

private:
  std::vector<double> frequencies_; // [dim / 2]
};

/// Most that one step can hold; the arrays are laid out for this once, so their addresses never change.
struct StepLimits {
  uint32_t rows, tailRows, logitRows;
  uint32_t sequences;           ///< in one step
  uint32_t blocks;              ///< pages per sequence and class
  uint32_t layers, expertsUsed; ///< expertsUsed is 0 without experts
};

inline constexpr size_t kSlotCount = 12;

/// Threads: as the engine.
class Descriptors {
public:
  static Result<Descriptors> create(device::Device &device, const StepLimits &limits, RopeAngles sliding,
                                    RopeAngles global);

  /// Address of a slot's array (fb::Slot as a number), the same for every step.
  std::byte *slot(size_t index) const { return slots_[index]; }

  /// Fills the arrays for a step that has been checked.
  void bind(const Step &step, const kv::KvCache &cache);

  int32_t count(module::Count which) const { return as<int32_t>(kCounts)[which]; }

private:
  enum Index : size_t { // in the order of fb::Slot; Engine.cpp asserts it
    kCounts,
    kTokens,
    kPositions,
    kSequences,
    kRowMap,
    kTailMap,
    kLogitMap,
    kBlocksSliding,
    kBlocksGlobal,
    kRopeSliding,
    kRopeGlobal,
    kForcedExperts
  };
  template <class T> T *as(size_t index) const { return reinterpret_cast<T *>(slots_[index]); }

  StepLimits limits_{};
  std::unique_ptr<device::Memory> memory_;
  std::array<std::byte *, kSlotCount> slots_{};
  RopeAngles sliding_, global_;
  std::vector<kv::SeqId> stepSequences_; // distinct, in order of first row
};

} // namespace g4::engine
