/// What the processor and the operating system allow, and how many cores this process may use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::device {

/// "x86-64" or "AArch64", for messages.
std::string_view cpuArchitecture();

/// Features usable here (by the processor and with registers that the system saves), named as LLVM names
/// them. Only those that code variants can ask for; empty on other architectures.
std::vector<std::string> cpuFeatures();

/// Where the system says what a process may use. Tests bring folders of their own.
struct SystemFolders {
  std::string proc = "/proc/self", cgroup = "/sys/fs/cgroup", cpu = "/sys/devices/system/cpu";
};

/// Physical cores among these processors, but no more than the process's control groups (version 1 or 2), or one that they
/// are in, give it time for: a quota of 2.4 processors is 2, of 2.5 is 3. At least 1.
unsigned usableCores(std::span<const int> processors, const SystemFolders &folders = {});
/// Those of the processors that this process may run on.
unsigned usableCores();

/// Bytes of memory that this process may have: those `installed`, but no more than its control groups (version 1 or 2), or one
/// that they are in, allow.
uint64_t usableMemory(uint64_t installed, const SystemFolders &folders = {});
/// Of those of this machine.
uint64_t usableMemory();

} // namespace g4::device
