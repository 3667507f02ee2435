/// Runs recursive code on a stack of its own. Internal to runtime/text.
#pragma once

#include "runtime/base/Status.h"

#include <functional>

namespace g4::text {

/// Calls `work`, which must not throw, on a thread with a large stack and waits for it. Templates nest as
/// deeply as their authors like, in ways that recurse in the engine; the caller's stack may be small. Errors:
/// kResourceExhausted (no thread or no address space; `work` was not called).
Status runOnDeepStack(const std::function<void()> &work);

} // namespace g4::text
