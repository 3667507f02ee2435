#include "tools/g4run/Interrupt.h"

#include <iterator>

namespace g4::tool {
namespace {

// Signal handlers reach nothing but globals.
volatile std::sig_atomic_t requested = 0;
volatile std::sig_atomic_t deferred = 0; ///< the signal that came

constexpr int kDeferred[] = {SIGINT, SIGTERM, SIGHUP};

void install(int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  action.sa_flags = flags; // no SA_RESTART: a read ends
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

} // namespace

void installInterrupt() { install(int(SA_RESETHAND)); }
void installInterruptOnly() { install(0); }
bool interrupted() { return requested != 0; }
void clearInterrupt() { requested = 0; }

DeferredEnd::DeferredEnd() {
  deferred = 0;
  for (size_t i = 0; i < std::size(kDeferred); ++i) {
    sigaction(kDeferred[i], nullptr, &before_[i]);
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      deferred = signal;
      requested = requested || signal == SIGINT;
    };
    sigemptyset(&action.sa_mask);
    if (before_[i].sa_handler != SIG_IGN) // such as SIGHUP under nohup
      sigaction(kDeferred[i], &action, nullptr);
  }
}

DeferredEnd::~DeferredEnd() {
  for (size_t i = 0; i < std::size(kDeferred); ++i)
    sigaction(kDeferred[i], &before_[i], nullptr);
  if (asked() && deferred != SIGINT)
    std::raise(deferred);
}

bool DeferredEnd::asked() const { return deferred != 0; }

} // namespace g4::tool
