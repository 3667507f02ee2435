#include "test/conformance/cpu/KernelHarness.h"

#include "llvm/TargetParser/Host.h"

#include <gtest/gtest.h>

namespace g4::conformance {

const std::vector<InstructionSet> &instructionSets() {
  static const std::vector<InstructionSet> runs = [] {
    std::vector<InstructionSet> result;
    auto have = llvm::sys::getHostCPUFeatures();
    std::string ran, not_;
    for (const cpu::Variant &v : cpu::variants()) {
      bool runs = llvm::all_of(v.needs, [&](const char *f) { return have.lookup(f); });
      (runs ? ran : not_) += std::string(" ") + v.isa;
      if (runs)
        result.push_back({v.isa, v});
    }
    cpu::Variant emulated = *cpu::findVariant("x86-64-v3");
    emulated.isa = "emulated";
    result.push_back({"emulated", emulated});
    std::printf("instruction sets run:%s emulated; not on this machine:%s\n", ran.c_str(),
                not_.empty() ? " none" : not_.c_str());
    return result;
  }();
  return runs;
}

std::unique_ptr<Kernels> compileKernels(const std::vector<std::pair<std::string, std::string>> &specs,
                                        const InstructionSet &run) {
  auto kernels = Kernels::compile(specs, run.variant);
  if (kernels.ok())
    return *std::move(kernels);
  ADD_FAILURE() << run.name << ": " << kernels.status().message();
  return nullptr;
}

std::string firstDifference(const std::vector<float> &got, const std::vector<double> &want,
                            const std::vector<double> &bound) {
  if (got.empty() || got.size() != want.size() || got.size() != bound.size())
    return "compares " + std::to_string(got.size()) + " results with " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!std::isfinite(got[i]) || !(std::fabs(got[i] - want[i]) <= bound[i])) {
      char text[160];
      std::snprintf(text, sizeof text, "result %zu is %.9g, expected %.9g +- %.3g", i, got[i], want[i],
                    bound[i]);
      return text;
    }
  return "";
}

} // namespace g4::conformance
