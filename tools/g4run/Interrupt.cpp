#include "tools/g4run/Interrupt.h"

#include <csignal>

namespace g4::tool {
namespace {

// Signal handlers reach nothing but globals.
volatile std::sig_atomic_t requested = 0;

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

} // namespace g4::tool
