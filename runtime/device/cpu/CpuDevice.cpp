#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/ThreadTeam.h"
#include "runtime/module/StepAbi.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/mman.h>

namespace g4::device {
namespace {

constexpr size_t kLargePage = size_t(2) << 20;

class CpuMemory final : public Memory {
public:
  CpuMemory(void *mapping, size_t mapped, std::byte *data, size_t size)
      : mapping_(mapping), mapped_(mapped), data_(data), size_(size) {}
  ~CpuMemory() override {
    if (mapping_)
      munmap(mapping_, mapped_);
  }
  std::byte *data() const override { return data_; }
  size_t size() const override { return size_; }

private:
  void *mapping_; // the block and what its alignment left over: address space only
  size_t mapped_;
  std::byte *data_;
  size_t size_;
};

class CpuExecutable final : public Executable {
public:
  CpuExecutable(std::unique_ptr<SharedObject> object, std::vector<module::KernelFn> kernels)
      : object_(std::move(object)), kernels_(std::move(kernels)) {}
  size_t kernelCount() const override { return kernels_.size(); }
  module::KernelFn kernel(uint32_t index) const { return kernels_[index]; }

private:
  std::unique_ptr<SharedObject> object_;
  std::vector<module::KernelFn> kernels_;
};

/// A launch that has work, as the threads see it.
struct Task {
  module::KernelFn kernel;
  void *const *buffers;
  int64_t items;
  bool barrier;
  uint32_t launch; // index in the run's list
};

int64_t nowNs() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

/// How far a launch is. Lines of their own: threads that are ahead drain the next launch while others finish the last.
struct Progress {
  alignas(64) std::atomic<int64_t> next{0};  // first item that nobody has taken
  alignas(64) std::atomic<uint32_t> done{0}; // items finished
};

class CpuDevice final : public Device {
public:
  CpuDevice(const CpuOptions &options)
      : options_(options), team_(options.threads ? options.threads : usableCores()), teamSize_(team_.size()) {}

  std::string_view name() const override { return "cpu"; }
  unsigned threadCount() const override { return team_.size(); }
  const RunCounters &counters() const override { return counters_; }

  Result<std::unique_ptr<Memory>> allocate(size_t bytes, Pages pages) override {
    if (bytes == 0)
      return std::unique_ptr<Memory>(std::make_unique<CpuMemory>(nullptr, 0, nullptr, 0));
    const size_t alignment = pages == Pages::kLarge && bytes >= kLargePage ? kLargePage : 1;
    const size_t mapped = bytes + (alignment - 1);
    void *mapping = MAP_FAILED;
    errno = ENOMEM;
    if (mapped >= bytes)
      mapping =
          mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
      return resourceExhausted("cannot map " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
    auto *data = reinterpret_cast<std::byte *>((uintptr_t(mapping) + alignment - 1) / alignment * alignment);
    if (alignment == kLargePage)
      madvise(data, bytes, MADV_HUGEPAGE); // refused where there are none
    return std::unique_ptr<Memory>(std::make_unique<CpuMemory>(mapping, mapped, data, bytes));
  }

  Result<std::unique_ptr<Executable>> loadCode(std::span<const std::byte> image,
                                               std::span<const std::string> kernels) override {
    G4_ASSIGN_OR_RETURN(auto object, SharedObject::load(image, options_.code));
    std::vector<module::KernelFn> functions;
    functions.reserve(kernels.size());
    for (const std::string &name : kernels) {
      void *symbol = object->symbol(name);
      if (!symbol)
        return dataLoss("the code has no kernel '" + name + "'");
      functions.push_back(reinterpret_cast<module::KernelFn>(symbol));
    }
    return std::unique_ptr<Executable>(
        std::make_unique<CpuExecutable>(std::move(object), std::move(functions)));
  }

  Status run(const Executable &code, std::span<const Launch> launches) override;
  void trace(std::vector<LaunchSpan> *spans) override { spans_ = spans; }

private:
  struct Turn {
    int64_t begin, end; // items
  };
  void work(unsigned thread);
  int64_t waitFor(size_t first, size_t last);
  Turn takeTurn(std::atomic<int64_t> &next, int64_t items) const;
  void collectSpans();

  CpuOptions options_;
  ThreadTeam team_;
  TeamSize teamSize_;
  int64_t workedNs_ = 0; // by the caller in this run
  RunCounters counters_;
  std::vector<Task> tasks_;
  std::unique_ptr<Progress[]> progress_; // one per task
  size_t progressSize_ = 0;
  std::vector<LaunchSpan> *spans_ = nullptr; // of the caller
  std::vector<LaunchSpan> slots_; // [tasks, threads] of the present run; beginNs 0: had no part in it
};

Status CpuDevice::run(const Executable &code, std::span<const Launch> launches) {
  const auto &executable = static_cast<const CpuExecutable &>(code);
  tasks_.clear();
  uint64_t barriers = 0;
  uint32_t index = 0;
  bool pending = false; // a barrier is due before the next launch that has work
  for (const Launch &launch : launches) {
    const uint32_t number = index++;
    pending |= launch.barrierBefore;
    if (launch.items <= 0)
      continue;
    if (launch.kernel >= executable.kernelCount())
      return invalidArgument("no kernel " + std::to_string(launch.kernel));
    if (launch.items > INT32_MAX)
      return invalidArgument("a launch of " + std::to_string(launch.items) + " items");
    pending &= !tasks_.empty();
    barriers += pending;
    tasks_.push_back(
        {executable.kernel(launch.kernel), launch.buffers.data(), launch.items, pending, number});
    pending = false;
  }
  counters_.runs += 1;
  counters_.launches += tasks_.size();
  counters_.barriers += barriers;
  if (tasks_.empty())
    return {};
  const unsigned threads = teamSize_.threads();
  const int64_t begin = nowNs();
  if (threads == 1 && !spans_) {
    for (const Task &task : tasks_)
      task.kernel(task.buffers, 0, task.items);
    teamSize_.ran(nowNs() - begin, 0);
    return {};
  }
  if (progressSize_ < tasks_.size()) {
    progressSize_ = tasks_.size();
    progress_ = std::make_unique<Progress[]>(progressSize_);
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    progress_[i].next.store(0, std::memory_order_relaxed);
    progress_[i].done.store(0, std::memory_order_relaxed);
  }
  if (spans_)
    slots_.assign(tasks_.size() * team_.size(), {});
  team_.run([](void *self, unsigned thread) { static_cast<CpuDevice *>(self)->work(thread); }, this, threads);
  teamSize_.ran(workedNs_, nowNs() - begin - workedNs_);
  if (spans_)
    collectSpans();
  return {};
}

void CpuDevice::collectSpans() {
  for (const LaunchSpan &span : slots_)
    if (span.beginNs)
      spans_->push_back(span);
}

/// Half of an equal share of what is left: few turns, since a prologue is computed anew in each, and short ones at the end,
/// which is where threads wait for each other.
CpuDevice::Turn CpuDevice::takeTurn(std::atomic<int64_t> &next, int64_t items) const {
  int64_t begin = next.load(std::memory_order_relaxed), end;
  do {
    if (begin >= items)
      return {items, items};
    end = begin + std::max<int64_t>(1, (items - begin) / (2 * int64_t(teamSize_.threads())));
  } while (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {begin, end};
}

/// Until all items of tasks [first, last) are finished. Not until all threads are here: one that is off its core has taken
/// no item that another could not do. Returns for how long, in nanoseconds.
int64_t CpuDevice::waitFor(size_t first, size_t last) {
  int64_t begin = 0;
  for (; first < last; ++first) {
    std::atomic<uint32_t> &done = progress_[first].done;
    for (uint32_t seen; (seen = done.load(std::memory_order_acquire)) != uint32_t(tasks_[first].items);) {
      if (!begin)
        begin = nowNs();
      spinThenPark(done, seen);
    }
  }
  return begin ? nowNs() - begin : 0;
}

void CpuDevice::work(unsigned thread) {
  const int64_t begin = thread == 0 ? nowNs() : 0;
  int64_t waited = 0;
  size_t afterBarrier = 0; // first task since the last barrier
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const Task &task = tasks_[i];
    if (task.barrier) {
      waited += waitFor(afterBarrier, i);
      afterBarrier = i;
    }
    LaunchSpan *span = spans_ ? &slots_[i * team_.size() + thread] : nullptr;
    for (Turn turn; (turn = takeTurn(progress_[i].next, task.items)).begin < turn.end;) {
      if (span && !span->beginNs)
        *span = {task.launch, thread, nowNs(), 0};
      task.kernel(task.buffers, turn.begin, turn.end);
      if (span)
        span->endNs = nowNs();
      const auto items = uint32_t(turn.end - turn.begin);
      if (progress_[i].done.fetch_add(items, std::memory_order_acq_rel) + items == uint32_t(task.items))
        progress_[i].done.notify_all();
    }
  }
  if (thread != 0) // may go: what is left to finish is in the hands of threads that are here
    return;
  waited += waitFor(afterBarrier, tasks_.size());
  workedNs_ = nowNs() - begin - waited;
}

} // namespace

std::unique_ptr<Device> createCpuDevice(const CpuOptions &options) {
  return std::make_unique<CpuDevice>(options);
}

} // namespace g4::device
