/// Where each weight of a module lies in memory.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/module/Module.h"

#include <memory>
#include <optional>
#include <vector>

namespace g4::engine {

/// Addresses into the mapped file, or into memory filled from a seed for a module compiled without weights.
class Weights {
public:
  /// The module must outlive the weights.
  /// Errors: kInvalidArgument when weights are missing and there is no seed, or there are both.
  static Result<Weights> create(device::Device &device, const module::Module &module,
                                std::optional<uint64_t> seed);

  /// Read-only memory, but for kernels' sake not const. index: of the header's weights.
  std::byte *data(size_t index) const { return addresses_[index]; }

private:
  std::vector<std::byte *> addresses_;
  std::unique_ptr<device::Memory> filled_; // null when the file has the weights
};

} // namespace g4::engine
