#include "runtime/device/cpu/CpuFeatures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <thread>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace g4::device {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
struct CpuId {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuId cpuId(uint32_t leaf, uint32_t subleaf = 0) {
  CpuId r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx); // all zero when the leaf is not there
  return r;
}

uint64_t enabledState() {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t(hi) << 32) | lo;
}
#endif

/// Processors that one control group has time for; infinite: no limit.
double quotaOf(const fs::path &group) {
  std::string quota;
  double period = 0;
  if (std::ifstream file(group / "cpu.max"); !(file >> quota >> period)) { // version 2: "max 100000" or "50000 100000"
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;                    // version 1: -1 is no limit
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  const double time = std::strtod(quota.c_str(), nullptr); // "max": 0
  return time > 0 && period > 0 ? time / period : std::numeric_limits<double>::infinity();
}

/// Bytes that one control group may have; infinite: no limit.
double memoryOf(const fs::path &group) {
  std::string bytes;
  if (std::ifstream file(group / "memory.max"); !(file >> bytes)) // version 2: "max" or a number
    std::ifstream(group / "memory.limit_in_bytes") >> bytes;      // version 1: a huge number is no limit
  const double limit = std::strtod(bytes.c_str(), nullptr);
  return limit > 0 ? limit : std::numeric_limits<double>::infinity();
}

/// The least limit of this process's groups and those that they are in. Within a container the path may be one of the
/// host's, and the container's own group is the root.
double leastOfGroups(const SystemFolders &folders, double (*limitOf)(const fs::path &group)) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream groups(folders.proc + "/cgroup");
  for (std::string line; std::getline(groups, line);) { // "4:cpu,cpuacct:/a/b", version 2: "0::/a/b"
    const size_t controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0)
      continue;
    const std::string names = line.substr(controllers, path - 1 - controllers);
    const fs::path root = fs::path(folders.cgroup) / names;
    fs::path group = fs::path(line.substr(path)).relative_path().lexically_normal();
    for (;; group = group.parent_path()) {
      least = std::min(least, limitOf(root / group));
      if (group.empty())
        break;
    }
  }
  return least;
}

} // namespace

std::string_view cpuArchitecture() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "AArch64";
#else
  return "a processor that g4 has no code for";
#endif
}

std::vector<std::string> cpuFeatures() {
  std::vector<std::string> out;
  [[maybe_unused]] auto add = [&](const char *name, bool usable) {
    if (usable)
      out.emplace_back(name);
  };
#if defined(__x86_64__)
  const CpuId base = cpuId(1), seven = cpuId(7), sevenOne = cpuId(7, 1);
  const bool saved = (base.ecx >> 27) & 1; // OSXSAVE: xgetbv may be used
  const uint64_t state = saved ? enabledState() : 0;
  const bool ymm = (state & 0x06) == 0x06; // xmm and upper ymm halves saved
  const bool zmm = (state & 0xe6) == 0xe6; // and mask registers and zmm
  auto bit = [](uint32_t word, int n) { return ((word >> n) & 1) != 0; };
  add("avx", ymm && bit(base.ecx, 28));
  add("avx2", ymm && bit(seven.ebx, 5));
  add("fma", ymm && bit(base.ecx, 12));
  add("f16c", ymm && bit(base.ecx, 29));
  add("bmi", bit(seven.ebx, 3));
  add("bmi2", bit(seven.ebx, 8));
  add("popcnt", bit(base.ecx, 23));
  add("lzcnt", bit(cpuId(0x80000001).ecx, 5));
  add("movbe", bit(base.ecx, 22));
  add("avxvnni", ymm && bit(sevenOne.eax, 4));
  add("avx512f", zmm && bit(seven.ebx, 16));
  add("avx512dq", zmm && bit(seven.ebx, 17));
  add("avx512cd", zmm && bit(seven.ebx, 28));
  add("avx512bw", zmm && bit(seven.ebx, 30));
  add("avx512vl", zmm && bit(seven.ebx, 31));
  add("avx512vbmi", zmm && bit(seven.ecx, 1));
  add("avx512vnni", zmm && bit(seven.ecx, 11));
  add("avx512bf16", zmm && bit(sevenOne.eax, 5));
  add("avx512fp16", zmm && bit(seven.edx, 23));
#elif defined(__aarch64__)
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  add("neon", first & HWCAP_ASIMD);
  add("dotprod", first & HWCAP_ASIMDDP);
  add("i8mm", second & HWCAP2_I8MM);
#endif
  return out;
}

unsigned usableCores(std::span<const int> processors, const SystemFolders &folders) {
  std::set<std::string> siblings; // one entry per physical core: its list of hardware threads
  for (int cpu : processors) {
    const std::string name = "cpu" + std::to_string(cpu);
    std::ifstream file(folders.cpu + "/" + name + "/topology/thread_siblings_list");
    std::string list;
    if (!std::getline(file, list))
      list = name;
    siblings.insert(list);
  }
  const double cores = std::min(double(siblings.size()), std::round(leastOfGroups(folders, quotaOf)));
  return unsigned(std::max(cores, 1.0));
}

uint64_t usableMemory(uint64_t installed, const SystemFolders &folders) {
  return uint64_t(std::min(double(installed), leastOfGroups(folders, memoryOf)));
}

uint64_t usableMemory() { return usableMemory(uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE))); }

unsigned usableCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &allowed))
        processors.push_back(cpu);
  } else { // more processors than fit
    for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu)
      processors.push_back(int(cpu));
  }
  return usableCores(processors);
}

} // namespace g4::device
