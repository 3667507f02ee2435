#include "runtime/text/DeepStack.h"

#include <pthread.h>

namespace g4::text {

Status runOnDeepStack(const std::function<void()> &work) {
  // Address space, not memory: pages are touched only as deep as the recursion goes. Enough for a value
  // nested once for every few of a rendering's steps (RenderBudget), whose destructor recurses.
  constexpr size_t kStackBytes = size_t(512) << 20;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0)
    return resourceExhausted("no memory for a thread");
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  const auto entry = [](void *argument) -> void * {
    (*static_cast<const std::function<void()> *>(argument))();
    return nullptr;
  };
  const int error = pthread_create(&thread, &attributes, entry, const_cast<std::function<void()> *>(&work));
  pthread_attr_destroy(&attributes);
  if (error != 0)
    return resourceExhausted("no thread for the chat template (error " + std::to_string(error) + ")");
  pthread_join(thread, nullptr);
  return {};
}

} // namespace g4::text
