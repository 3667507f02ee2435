#include "test/conformance/cpu/KernelHarness.h"
#include "dialects/exec/ExecDialect.h"
#include "passes/lower/Passes.h"

#include "mlir/Parser/Parser.h"
#include "llvm/TargetParser/Host.h"

#include <gtest/gtest.h>

namespace g4::conformance {

using namespace mlir;

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

std::unique_ptr<Kernels> Kernels::compile(const std::vector<std::pair<std::string, std::string>> &specs,
                                          const InstructionSet &run) {
  DialectRegistry registry;
  registry.insert<exec::ExecDialect>();
  cpu::registerCpuDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string messages, text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { messages += d.str() + "\n"; });
  for (auto &[name, spec] : specs)
    text += "exec.kernel @" + name + " : " + spec + " {}\n";
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << messages << text;
    return nullptr;
  }
  PassManager pm(&context);
  pm.addPass(lower::createLowerExecToTilePass());
  cpu::buildCpuPipeline(pm, run.variant);
  std::unique_ptr<Kernels> kernels(new Kernels);
  if (succeeded(pm.run(*module)))
    if (auto code = cpu::generateCode(*module, run.variant, cpu::Output::kShared); succeeded(code)) {
      auto object = device::SharedObject::load(std::as_bytes(std::span(code->data(), code->size())));
      if (object.ok()) {
        kernels->object = *std::move(object);
        return kernels;
      }
      messages += object.status().message();
    }
  ADD_FAILURE() << run.name << ": " << messages;
  return nullptr;
}

module::KernelFn Kernels::find(const std::string &name) const {
  return reinterpret_cast<module::KernelFn>(object->symbol(name));
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
