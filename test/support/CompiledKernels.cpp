#include "test/support/CompiledKernels.h"
#include "dialects/exec/ExecDialect.h"
#include "passes/lower/Passes.h"

#include "mlir/Parser/Parser.h"

#include <span>

namespace g4::support {

using namespace mlir;

Result<std::unique_ptr<CompiledKernels>>
CompiledKernels::compile(const std::vector<std::pair<std::string, std::string>> &specs, const cpu::Variant &variant) {
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
  if (!module)
    return invalidArgument(messages + text);
  PassManager pm(&context);
  pm.addPass(lower::createLowerExecToTilePass());
  cpu::buildCpuPipeline(pm, variant);
  if (failed(pm.run(*module)))
    return invalidArgument(messages);
  auto code = cpu::generateCode(*module, variant, cpu::Output::kShared);
  if (failed(code))
    return invalidArgument(messages);
  std::unique_ptr<CompiledKernels> kernels(new CompiledKernels);
  G4_ASSIGN_OR_RETURN(kernels->object, device::SharedObject::load(std::as_bytes(std::span(code->data(), code->size()))));
  return kernels;
}

module::KernelFn CompiledKernels::find(const std::string &name) const {
  return reinterpret_cast<module::KernelFn>(object->symbol(name));
}

} // namespace g4::support
