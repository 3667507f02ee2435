/// Ctrl-C, and other signals that end a program.
#pragma once

#include <csignal>

namespace g4::tool {

/// The first Ctrl-C ends the work at the next step, a second one the process.
void installInterrupt();
/// Every Ctrl-C is left to who asks interrupted() and clears it.
void installInterruptOnly();

bool interrupted();
void clearInterrupt();

/// For work that must be cleaned up: while one of these lives, SIGTERM, SIGHUP and further Ctrl-C do not end
/// the process. The end of a SIGTERM or SIGHUP that came meanwhile follows when it dies. One at a time.
class DeferredEnd {
public:
  DeferredEnd();
  ~DeferredEnd();
  DeferredEnd(const DeferredEnd &) = delete;
  DeferredEnd &operator=(const DeferredEnd &) = delete;
  /// Whether a signal came.
  bool asked() const;

private:
  struct sigaction before_[3]{};
};

} // namespace g4::tool
