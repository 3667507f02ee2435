/// Which kernels the time of a model's steps goes to, and what they have to read and multiply. Not public.
#pragma once

#include "runtime/api/Bench.h"
#include "runtime/device/Device.h"
#include "runtime/engine/Step.h"
#include "runtime/module/Module.h"

namespace g4::api {

/// Kinds of weights that the model's contractions read, as FamilyMacs names them; live as long as the module.
std::vector<std::string_view> familiesOf(const module::Module &module);

/// Sums up traced steps of a module's program `step`. The module must outlive it.
class Profiler {
public:
  explicit Profiler(const module::Module &module);

  /// A step that took `seconds`, with the spans of its dispatches in any order.
  void add(const engine::Step &step, std::span<const device::LaunchSpan> spans, double seconds);
  /// What was added so far; kernels that had no work are left out.
  Profile profile() const;

private:
  void addWork(const module::fb::Dispatch &dispatch, const engine::Step &step, KernelUse &use) const;

  const module::Module &module_;
  Profile sum_; // all kernels, in the order of the header
};

} // namespace g4::api
