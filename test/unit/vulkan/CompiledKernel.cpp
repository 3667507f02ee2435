#include "test/unit/vulkan/CompiledKernel.h"

#include "compiler/targets/cpu/Cpu.h"
#include "compiler/targets/vulkan/Vulkan.h"
#include "dialects/exec/Signature.h"
#include "dialects/tile/TileDialect.h"
#include "passes/lower/Passes.h"
#include "runtime/device/cpu/SharedObject.h"
#include "runtime/module/StepAbi.h"
#include "test/unit/vulkan/VulkanRunner.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cstdio>

using namespace mlir;

namespace g4::test {

struct CompiledKernel::State {
  std::vector<std::string> names; // of the arguments, in order
  std::unique_ptr<device::SharedObject> object;
  module::KernelFn function = nullptr;
  std::unique_ptr<VulkanRunner> runner;

  /// The arguments in order; empty if one is missing.
  std::vector<std::vector<std::byte> *> arguments(Buffers &buffers, std::string &error) const {
    std::vector<std::vector<std::byte> *> result;
    for (const std::string &name : names) {
      auto it = buffers.data.find(name);
      if (it == buffers.data.end()) {
        error = "no buffer for the argument '" + name + "'";
        return {};
      }
      result.push_back(&it->second);
    }
    return result;
  }
};

CompiledKernel::CompiledKernel() : state(std::make_unique<State>()) {}
CompiledKernel::~CompiledKernel() = default;

std::unique_ptr<CompiledKernel> CompiledKernel::compile(const std::string &spec, std::string &error) {
  DialectRegistry registry;
  registry.insert<exec::ExecDialect, tile::TileDialect>();
  cpu::registerCpuDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
    error += d.str() + "\n";
    return success();
  });
  auto passes = [&](ModuleOp module, function_ref<void(OpPassManager &)> add) {
    PassManager pm(&context);
    add(pm);
    return pm.run(module);
  };
  auto forVulkan = parseSourceString<ModuleOp>("exec.kernel @kernel : " + spec + " {}", &context);
  if (!forVulkan)
    return nullptr;
  std::unique_ptr<CompiledKernel> result(new CompiledKernel);
  for (const exec::Argument &a : exec::signatureOf((*forVulkan->getOps<exec::KernelOp>().begin()).getSpec()))
    result->state->names.push_back(a.name);

  const cpu::Variant *variant = cpu::hostVariant();
  if (!variant) {
    error = "this CPU runs none of the code levels";
    return nullptr;
  }
  OwningOpRef<ModuleOp> forCpu = forVulkan->clone();
  if (failed(passes(*forCpu, [&](OpPassManager &pm) {
        pm.addPass(lower::createLowerExecToTilePass());
        cpu::buildCpuPipeline(pm, *variant);
      })))
    return nullptr;
  FailureOr<std::string> code = cpu::generateCode(*forCpu, *variant, cpu::Output::kShared);
  if (failed(code))
    return nullptr;
  auto object = device::SharedObject::load(std::as_bytes(std::span(*code)));
  if (!object.ok()) {
    error = object.status().message();
    return nullptr;
  }
  result->state->object = std::move(*object);
  result->state->function = reinterpret_cast<module::KernelFn>(result->state->object->symbol("kernel"));

  if (failed(passes(*forVulkan, [](OpPassManager &pm) {
        pm.addPass(lower::createLowerExecToTilePass({/*splitAttention=*/false}));
        vulkan::buildVulkanPipeline(pm);
      })))
    return nullptr;
  FailureOr<std::vector<uint32_t>> shader = vulkan::generateShaders(*forVulkan);
  if (failed(shader))
    return nullptr;
  result->state->runner = VulkanRunner::create(*shader, "kernel", result->state->names.size(), error);
  if (!result->state->runner)
    return nullptr;
  std::printf("CPU: code for %s. Vulkan: %zu words of SPIR-V on %s, %s\n", variant->name, shader->size(),
              result->state->runner->deviceName().c_str(),
              result->state->runner->validates() ? "with validation" : "without validation layers");
  return result;
}

std::string CompiledKernel::runOnCpu(Buffers &buffers, int64_t items) const {
  std::string error;
  std::vector<void *> pointers;
  for (std::vector<std::byte> *bytes : state->arguments(buffers, error))
    pointers.push_back(bytes->data());
  if (error.empty())
    state->function(pointers.data(), 0, items);
  return error;
}

std::string CompiledKernel::runOnVulkan(Buffers &buffers, int64_t items) const {
  std::string error;
  auto arguments = state->arguments(buffers, error);
  return error.empty() ? state->runner->run(arguments, items) : error;
}

} // namespace g4::test
