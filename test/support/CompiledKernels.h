/// Kernels compiled from their specifications, in this process.
#pragma once

#include "compiler/targets/cpu/Cpu.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/SharedObject.h"
#include "runtime/module/StepAbi.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace g4::support {

/// Owns the code: functions live as long as it does.
class CompiledKernels {
public:
  /// `specs` are (name, specification) pairs, such as ("k", "#exec.linear<...>"). kInvalidArgument with the
  /// compiler's diagnostics when they do not compile.
  static Result<std::unique_ptr<CompiledKernels>>
  compile(const std::vector<std::pair<std::string, std::string>> &specs, const cpu::Variant &variant);
  /// Null when there is none of this name.
  module::KernelFn find(const std::string &name) const;

private:
  std::unique_ptr<device::SharedObject> object;
};

} // namespace g4::support
