#include "compiler/weights/InOrder.h"

#include "llvm/Support/ThreadPool.h"

namespace g4::weights {

Status inOrder(uint64_t count, llvm::function_ref<Status(uint64_t, std::vector<std::byte> &)> make,
               llvm::function_ref<Status(uint64_t, std::span<const std::byte>)> use) {
  struct Slot {
    std::vector<std::byte> piece;
    std::shared_future<Status> made;
  };
  llvm::DefaultThreadPool threads;
  // One that a thread works on and one that waits for it: then threads don't wait for the disk, nor the disk for them.
  std::vector<Slot> slots(std::min<uint64_t>(2 * threads.getMaxConcurrency(), count));
  Status status;
  for (uint64_t i = 0; i < count + slots.size() && status.ok(); ++i) {
    Slot &slot = slots[i % slots.size()];
    if (i >= slots.size()) {
      status = slot.made.get();
      if (status.ok())
        status = use(i - slots.size(), slot.piece);
    }
    if (i < count && status.ok())
      slot.made = threads.async([&make, &slot, i] { return make(i, slot.piece); });
  }
  threads.wait();
  return status;
}

} // namespace g4::weights
