/// Compiles kernels from their specifications and runs them in this process.
#pragma once

#include "test/support/CompiledKernels.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace g4::conformance {

/// A way to run the byte dot product. "emulated" is the logic of the VNNI variants in plain vector code.
struct InstructionSet {
  std::string name;
  cpu::Variant variant;
};
/// Those that this machine can run; prints them and those it cannot. avx2 and emulated are always among them.
const std::vector<InstructionSet> &instructionSets();

using Kernels = support::CompiledKernels;
/// `specs` are (name, specification) pairs. Fails the current test and gives null when they do not compile.
std::unique_ptr<Kernels> compileKernels(const std::vector<std::pair<std::string, std::string>> &specs,
                                        const InstructionSet &run);

/// Bound of the relative error of n rounded f32 operations in a row: n u / (1 - n u), u = 2^-24 (Higham,
/// lemma 3.1).
inline double gamma(double n) {
  double u = std::ldexp(1.0, -24);
  return n * u / (1 - n * u);
}

/// The first place where a result is further from the oracle than its bound, in words; empty if there is
/// none. A result that is not finite is always too far.
std::string firstDifference(const std::vector<float> &got, const std::vector<double> &want,
                            const std::vector<double> &bound);

} // namespace g4::conformance
