#include "runtime/device/cpu/HostMemory.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/ThreadTeam.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
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

/// A buffer whose chunks go to whichever thread asks first.
struct Buffer {
  std::byte *data;
  size_t chunks;
  Clock::time_point end; ///< of the filling
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> seen{0}; ///< uses what was read, so that it is read
};

void fill(void *context, unsigned) {
  Buffer &buffer = *static_cast<Buffer *>(context);
  while (buffer.next < kChunksInAnyTime || Clock::now() < buffer.end) {
    const size_t chunk = buffer.next++;
    if (chunk >= buffer.chunks)
      return;
    std::memset(buffer.data + chunk * kChunk, 1, kChunk);
  }
}

/// Loads of 32 bytes in ascending order and nothing else: the machine's own prefetcher does best with them.
[[gnu::always_inline]] inline void readAll(Buffer &buffer) {
  typedef uint64_t Vector __attribute__((vector_size(32), may_alias));
  constexpr size_t kAtOnce = 4;
  Vector seen[kAtOnce] = {};
  for (size_t chunk; (chunk = buffer.next++) < buffer.chunks;) {
    const auto *vectors = reinterpret_cast<const Vector *>(buffer.data + chunk * kChunk);
    for (size_t i = 0; i < kChunk / sizeof(Vector); i += kAtOnce)
      for (size_t j = 0; j < kAtOnce; ++j)
        seen[j] |= vectors[i + j];
  }
  for (const Vector &vector : seen)
    buffer.seen |= vector[0] | vector[1] | vector[2] | vector[3];
}

void readPlain(void *context, unsigned) { readAll(*static_cast<Buffer *>(context)); }

#if defined(__x86_64__)
/// One load for 32 bytes instead of two.
[[gnu::target("avx2")]] void readAvx2(void *context, unsigned) { readAll(*static_cast<Buffer *>(context)); }
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

Result<double> readBandwidth(unsigned threads) {
  const uint64_t available = procBytes("/proc/meminfo", "MemAvailable");
  const size_t chunks = std::clamp<size_t>(available / 4 / kChunk, kLeastChunks, kMostChunks);
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kHugePage, chunks * kChunk),
                                                           &std::free);
  if (!memory)
    return resourceExhausted("no " + std::to_string(chunks * kChunk) +
                             " bytes to measure memory's bandwidth with");
  madvise(memory.get(), chunks * kChunk, MADV_HUGEPAGE); // small pages do as well, a little slower
  ThreadTeam team(threads);
  constexpr auto kTime = std::chrono::milliseconds(300);
  Buffer buffer{static_cast<std::byte *>(memory.get()), chunks, Clock::now() + kTime};
  team.run(fill, &buffer); // pages that nobody has written are all the same one
  buffer.chunks = std::min<size_t>(buffer.next, chunks);
  const ThreadTeam::Work read = bestRead();
  double best = 0;
  const auto end = Clock::now() + kTime;
  for (bool first = true; first || Clock::now() < end; first = false) {
    buffer.next = 0;
    const auto begin = Clock::now();
    team.run(read, &buffer);
    best = std::max(best, double(buffer.chunks * kChunk) /
                              std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

uint64_t peakResidentBytes() { return procBytes("/proc/self/status", "VmHWM"); }

} // namespace g4::device
