/// What the processor and the operating system allow, and how many cores this process may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace g4::device {

/// "x86-64" or "AArch64", for messages.
std::string_view cpuArchitecture();

/// Features usable here (by the processor and with registers that the system saves), named as LLVM names
/// them. Only those that code variants can ask for; empty on other architectures.
std::vector<std::string> cpuFeatures();

/// Physical cores among the processors that this process may run on, at most what a cgroup quota gives; >= 1.
unsigned usableCores();

} // namespace g4::device
