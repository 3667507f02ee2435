#include "tools/g4c/Report.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace mlir;

namespace g4::g4c {

LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "g4c: error: " << message << "\n";
  return failure();
}

std::string producer() { return "g4c " G4_VERSION ", LLVM " LLVM_VERSION_STRING; }

Progress::Progress() : terminal(isatty(STDERR_FILENO)), begin(Clock::now()), phaseBegin(begin), last(begin) {}
Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown)
    llvm::errs() << "\r\033[K";
  shown = false;
}

void Progress::show(const std::string &text) {
  auto now = Clock::now();
  if (!terminal || now - begin < std::chrono::seconds(1) || now - last < std::chrono::milliseconds(100))
    return;
  last = now;
  llvm::errs() << "\r\033[K" << text;
  shown = true;
}

void Progress::phase(std::string text) {
  name = std::move(text);
  phaseBegin = Clock::now();
  show(name);
}

void Progress::bytes(uint64_t done, uint64_t all) {
  double seconds = std::chrono::duration<double>(Clock::now() - phaseBegin).count();
  double rate = seconds > 0 ? done / seconds : 0;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << name << llvm::format(": %3.0f %%, %.0f MB/s", all ? 100.0 * done / all : 100.0, rate / 1e6);
  if (rate > 0)
    os << llvm::format(", %.0f s left", (all - done) / rate);
  show(text);
}

} // namespace g4::g4c
