/// The device that is this machine's processor.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/cpu/SharedObject.h"

namespace g4::device {

struct CpuOptions {
  unsigned threads = 0; ///< the caller included; 0: one per usable physical core
  SharedObjectOptions code;
};

/// Code images are self-contained ELF shared objects whose kernels are module::KernelFn.
///
/// Work items of a launch are drained by all threads from one atomic counter, a few items at a time, and a barrier waits
/// for the items, not for the threads: on a shared or asymmetric machine one slow thread would hold up every barrier.
/// Which thread does an item never changes its result, because items are independent. On a machine that is busy with other things
/// some of the threads stay asleep (TeamSize).
std::unique_ptr<Device> createCpuDevice(const CpuOptions &options = {});

} // namespace g4::device
