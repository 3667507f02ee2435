#include "runtime/device/cpu/HostMemory.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>

namespace g4::device {
namespace {

/// Bytes of the line "<name>: N kB" in a file of /proc; 0 when there is none.
uint64_t procBytes(const char *path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":"))
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) << 10;
  return 0;
}

using Clock = std::chrono::steady_clock;

constexpr size_t kChunk = size_t(1) << 20; // what a thread takes at once
constexpr size_t kLeastChunks = 64, kMostChunks = 1024;
constexpr size_t kChunksInAnyTime = 256; // several times what the caches of common machines hold
constexpr size_t kHugePage = size_t(2) << 20;

/// Chunks for whichever thread asks first, in ascending order, round and round.
struct Work {
  std::byte *data;
  size_t chunks;
  Clock::time_point end;
  std::atomic<size_t> next;
  std::atomic<uint64_t> seen{0}; ///< uses what was read, so that it is read
};

void fill(void *context, unsigned) {
  Work &work = *static_cast<Work *>(context);
  while (work.next < kChunksInAnyTime || Clock::now() < work.end) {
    const size_t chunk = work.next++;
    if (chunk >= work.chunks)
      return;
    std::memset(work.data + chunk * kChunk, 1, kChunk);
  }
}

/// Loads of 32 bytes in ascending order and nothing else: the machine's own prefetcher does best with them.
[[gnu::always_inline]] inline void readAll(Work &work) {
  typedef uint64_t Vector __attribute__((vector_size(32), may_alias));
  constexpr size_t kAtOnce = 4;
  Vector seen[kAtOnce] = {};
  while (Clock::now() < work.end) {
    const size_t chunk = work.next++ % work.chunks;
    const auto *vectors = reinterpret_cast<const Vector *>(work.data + chunk * kChunk);
    for (size_t i = 0; i < kChunk / sizeof(Vector); i += kAtOnce)
      for (size_t j = 0; j < kAtOnce; ++j)
        seen[j] |= vectors[i + j];
  }
  for (const Vector &vector : seen)
    work.seen |= vector[0] | vector[1] | vector[2] | vector[3];
}

void readPlain(void *context, unsigned) { readAll(*static_cast<Work *>(context)); }

#if defined(__x86_64__)
/// One load for 32 bytes instead of two.
[[gnu::target("avx2")]] void readAvx2(void *context, unsigned) { readAll(*static_cast<Work *>(context)); }
#endif

ThreadTeam::Work bestRead() {
#if defined(__x86_64__)
  const auto have = cpuFeatures();
  if (std::find(have.begin(), have.end(), "avx2") != have.end())
    return readAvx2;
#endif
  return readPlain;
}

} // namespace

Result<BandwidthProbe> BandwidthProbe::create(ThreadTeam &team) {
  const uint64_t available = procBytes("/proc/meminfo", "MemAvailable");
  const size_t chunks = std::clamp<size_t>(available / 4 / kChunk, kLeastChunks, kMostChunks);
  Memory memory(static_cast<std::byte *>(std::aligned_alloc(kHugePage, chunks * kChunk)), &std::free);
  if (!memory)
    return resourceExhausted("no " + std::to_string(chunks * kChunk) +
                             " bytes to measure memory's bandwidth with");
  madvise(memory.get(), chunks * kChunk, MADV_HUGEPAGE); // small pages do as well, a little slower
  Work work{memory.get(), chunks, Clock::now() + std::chrono::milliseconds(300), 0};
  team.run(fill, &work); // pages that nobody has written are all the same one
  return BandwidthProbe(std::move(memory), std::min<size_t>(work.next, chunks));
}

double BandwidthProbe::measure(ThreadTeam &team) {
  const auto begin = Clock::now();
  Work work{memory_.get(), chunks_, begin + std::chrono::milliseconds(30), next_};
  team.run(bestRead(), &work);
  const size_t read = work.next - next_;
  next_ = work.next % chunks_;
  return double(read * kChunk) / std::chrono::duration<double>(Clock::now() - begin).count();
}

uint64_t peakResidentBytes() { return procBytes("/proc/self/status", "VmHWM"); }

} // namespace g4::device
