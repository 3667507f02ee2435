/// What the engine needs of a machine that runs kernels: memory, code, and a way to run a list of dispatches.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace g4::device {

/// A block of device memory, freed with the object. Zero until written; touched lazily: an unused page of the
/// block costs address space only. Threads: the block itself is as safe as plain memory.
class Memory {
public:
  virtual ~Memory() = default;
  virtual std::byte *data() const = 0;
  virtual size_t size() const = 0; ///< bytes, as asked for
};

/// What a block is mapped in. A large page is in memory as a whole once a byte of it is written: for blocks that
/// fill from their beginning on, without gaps.
enum class Pages : uint8_t { kSmall, kLarge };

/// Loaded kernels. Must not outlive its Device, nor be destroyed while a run uses it.
class Executable {
public:
  virtual ~Executable() = default;
  virtual size_t kernelCount() const = 0;
};

/// One dispatch with its buffers resolved. Work items are independent: they may run on any thread, in any
/// order.
struct Launch {
  uint32_t kernel;                ///< index into the Executable's kernels
  std::span<void *const> buffers; ///< one address per binding; borrowed until the run returns
  int64_t items;                  ///< work items; 0 costs nothing
  bool barrierBefore;             ///< every earlier launch must have finished
};

/// What runs cost so far.
struct RunCounters {
  uint64_t runs = 0;
  uint64_t launches = 0; ///< launches that had work
  uint64_t barriers = 0; ///< barriers inside runs; the join at the end of a run is not one
};

/// When one thread worked on one launch of a run.
struct LaunchSpan {
  uint32_t launch; ///< index in the run's list
  unsigned thread;
  int64_t beginNs, endNs; ///< of a clock that never goes back
};

/// Threads: one caller at a time.
class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  virtual unsigned threadCount() const = 0;

  /// `pages`: a wish; where the system has or allows no large pages, small ones do.
  /// Errors: kResourceExhausted when the address space or memory is not there.
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes, Pages pages) = 0;

  /// Loads `image` (code in this device's format; copied, not borrowed) and looks up each of `kernels` once.
  /// Errors: kIncompatible when the image cannot be loaded here, kDataLoss when a kernel is missing.
  virtual Result<std::unique_ptr<Executable>> loadCode(std::span<const std::byte> image,
                                                       std::span<const std::string> kernels) = 0;

  /// Runs `launches` in order and returns when all have finished.
  /// A barrier between two launches is left out when nothing ran since the last one.
  /// Errors: kInvalidArgument when a launch names a kernel that the code does not have (nothing ran).
  virtual Status run(const Executable &code, std::span<const Launch> launches) = 0;

  /// From now on each run appends its spans to `spans`, which must live until the next call; null ends that. Costs
  /// nothing when off.
  virtual void trace(std::vector<LaunchSpan> *spans) = 0;

  virtual const RunCounters &counters() const = 0;
};

/// One build of the kernels, as far as choosing one is concerned.
struct VariantNeeds {
  std::string name;                  ///< "x86-64-v3", "avx512-vnni", ...
  std::string target;                ///< "cpu"
  std::vector<std::string> features; ///< CPU features it needs, named as LLVM names them
};

/// The first of `variants` (stored best first) that runs on a machine with `have`, or the one called
/// `wanted` if that is not empty.
/// Errors: kIncompatible when none fits (the message lists what each needs and what is here) or when the
/// wanted one does not fit; kInvalidArgument when no variant has that name.
Result<size_t> chooseVariant(std::span<const VariantNeeds> variants, std::span<const std::string> have,
                             std::string_view wanted = {});

} // namespace g4::device
