/// The boundary between code that may throw (the standard library, on a failed allocation) and public
/// headers.
#pragma once

#include "runtime/base/Status.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace g4 {

/// Runs `f`, which returns a Status or a Result, and turns exceptions into a Status.
/// Errors: kResourceExhausted when memory ran out; kInternal for any other exception.
template <class F> std::invoke_result_t<F> guarded(F &&f) {
  // Short messages: they fit in the string itself, so that reporting allocates nothing.
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return resourceExhausted("out of memory");
  } catch (const std::length_error &) {
    return resourceExhausted("out of memory");
  } catch (...) {
    return internalError("exception");
  }
}

} // namespace g4
