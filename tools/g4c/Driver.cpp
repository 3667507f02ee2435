#include "tools/g4c/Driver.h"
#include "compiler/emit/Emit.h"
#include "compiler/emit/GgufWriter.h"
#include "compiler/import/Importer.h"
#include "compiler/support/Diagnostics.h"
#include "compiler/targets/cpu/Cpu.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/gemma/GemmaDialect.h"
#include "dialects/tile/TileDialect.h"
#include "tools/g4c/DryRun.h"
#include "tools/g4c/Options.h"
#include "tools/g4c/Report.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

#include <future>

using namespace mlir;
using namespace g4;

namespace {

OwningOpRef<ModuleOp> load(MLIRContext &context, const g4c::Options &o) {
  if (StringRef(o.inputs.front()).ends_with(".mlir"))
    return parseSourceFile<ModuleOp>(o.inputs.front(), &context);
  return importer::importGguf(context, o.inputs, {.allowMissingData = o.weightsMissing});
}

LogicalResult runPasses(ModuleOp module, function_ref<void(OpPassManager &)> build) {
  PassManager pm(module.getContext());
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  build(pm);
  return pm.run(module);
}

/// Code for one CPU level, from a copy of the module in the tile stage.
FailureOr<std::string> compileFor(ModuleOp module, const cpu::Variant &variant, cpu::Output output) {
  OwningOpRef<ModuleOp> copy = module.clone();
  if (failed(runPasses(*copy, [&](OpPassManager &pm) { cpu::buildCpuPipeline(pm, variant); })))
    return failure();
  return cpu::generateCode(*copy, variant, output);
}

/// Code for all CPU levels that were asked for, from the module in the tile stage.
FailureOr<std::vector<emit::CodeVariant>> compileAll(ModuleOp module, const g4c::Options &o) {
  std::vector<const cpu::Variant *> levels;
  for (const std::string &name : o.cpus)
    levels.push_back(cpu::findVariant(name));
  auto code = cpu::compileKernels(module, levels, [](PassManager &pm) { return applyPassManagerCLOptions(pm); });
  if (failed(code))
    return failure();
  std::vector<emit::CodeVariant> result;
  for (auto [level, bytes] : llvm::zip(levels, *code))
    result.push_back({"cpu", level->name, {level->needs.begin(), level->needs.end()}, std::move(bytes)});
  return result;
}

LogicalResult write(StringRef path, function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, llvm::sys::fs::OF_None);
  if (error)
    return g4c::fail(path + ": " + error.message());
  print(file.os());
  file.os().flush();
  if (file.os().has_error()) {
    std::string message = file.os().error().message();
    file.os().clear_error();
    return g4c::fail(path + ": " + message);
  }
  file.keep();
  return success();
}

LogicalResult compile(MLIRContext &context, const g4c::Options &o) {
  g4c::Progress progress;
  OwningOpRef<ModuleOp> module = load(context, o);
  if (!module)
    return failure();
  std::optional<Stage> from = stageOf(*module);
  if (!from)
    return g4c::fail(o.inputs.front() + " holds neither a gemma.model nor an exec.program");
  if (*from != Stage::kGguf && o.quantizes())
    return g4c::fail(o.inputs.front() + " is past the stage in which weights are quantised: start from the GGUF file");
  if (o.emit == g4c::Emit::kGgufFile) {
    if (*from == Stage::kGguf &&
        failed(runPasses(*module, [&](OpPassManager &pm) { gemma::buildQuantizePipeline(pm, o.pipeline.gemma); })))
      return failure();
    progress.phase("writing tensors");
    return emit::writeGguf(*module, {o.output, [&](uint64_t done, uint64_t all) { progress.bytes(done, all); }});
  }
  Stage last = o.emit == g4c::Emit::kGguf    ? Stage::kGguf
               : o.emit == g4c::Emit::kGemma ? Stage::kGemma
               : o.emit == g4c::Emit::kExec || o.dryRun ? Stage::kExec
                                                        : Stage::kTile;
  if (failed(runPasses(*module, [&](OpPassManager &pm) { buildPipeline(pm, *from, last, o.pipeline); })))
    return failure();
  if (o.dryRun) {
    auto plan = emit::planArtifact(*module);
    if (failed(plan))
      return failure();
    o.json ? g4c::printPlanJson(*plan, llvm::outs()) : g4c::printPlan(*plan, llvm::outs());
    return success();
  }
  StringRef output = o.output.empty() && o.emit != g4c::Emit::kArtifact ? StringRef("-") : StringRef(o.output);
  if (o.emit != g4c::Emit::kArtifact && o.emit < g4c::Emit::kLlvm)
    return write(output, [&](llvm::raw_ostream &os) {
      module->print(os, OpPrintingFlags().enableDebugInfo(true, false));
      os << "\n";
    });
  if (o.emit != g4c::Emit::kArtifact) {
    auto kind = o.emit == g4c::Emit::kLlvm  ? cpu::Output::kLlvmIr
                : o.emit == g4c::Emit::kAsm ? cpu::Output::kAssembly
                                            : cpu::Output::kObject;
    auto text = compileFor(*module, *cpu::findVariant(o.cpus.front()), kind);
    if (failed(text))
      return failure();
    return write(output, [&](llvm::raw_ostream &os) { os << *text; });
  }
  std::string artifact = o.output;
  if (artifact.empty())
    artifact = StringRef(o.inputs.front()).rsplit('.').first.str() + ".g4m";
  progress.phase("packing weights");
  auto packed = [&](uint64_t done, uint64_t all) { progress.bytes(done, all); };
  // Meanwhile, code is generated: that keeps the cores busy, and the weights the disk.
  auto policy = context.isMultithreadingEnabled() ? std::launch::async : std::launch::deferred;
  auto code = std::async(policy, [&] { return compileAll(*module, o); });
  auto getCode = [&] {
    progress.phase("generating code");
    return code.get();
  };
  return emit::emitArtifact(*module, getCode, {artifact, g4c::producer(), o.weightsMissing, packed});
}

} // namespace

int g4c::run(int argc, char **argv) {
  Options options = parseOptions(argc, argv);
  DialectRegistry registry;
  registry.insert<gguf::GgufDialect, gemma::GemmaDialect, exec::ExecDialect, tile::TileDialect>();
  cpu::registerCpuDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // an error is one line
  support::DiagnosticPrinter printer(&context, llvm::errs());
  return succeeded(compile(context, options)) ? 0 : 1;
}
