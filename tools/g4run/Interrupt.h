/// Ctrl-C.
#pragma once

namespace g4::tool {

/// The first Ctrl-C ends the work at the next step, a second one the process.
void installInterrupt();
/// Every Ctrl-C is left to who asks interrupted() and clears it.
void installInterruptOnly();

bool interrupted();
void clearInterrupt();

} // namespace g4::tool
