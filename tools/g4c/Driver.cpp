#include "tools/g4c/Driver.h"
#include "compiler/emit/Emit.h"
#include "compiler/emit/GgufWriter.h"
#include "compiler/import/Importer.h"
#include "compiler/support/Diagnostics.h"
#include "compiler/targets/cpu/Cpu.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/gemma/GemmaDialect.h"
#include "dialects/tile/TileDialect.h"
#include "runtime/base/Text.h"
#include "tools/common/Files.h"
#include "tools/llvm/LlvmTool.h"
#include "tools/g4c/DryRun.h"
#include "tools/g4c/Options.h"
#include "tools/g4c/Report.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <future>

using namespace mlir;
using namespace g4;

namespace {

OwningOpRef<ModuleOp> load(MLIRContext &context, const g4c::Options &o) {
  const std::string &first = o.inputs.front();
  if (StringRef(first).ends_with(".mlir")) {
    auto text = llvm::MemoryBuffer::getFile(first);
    if (!text)
      return (void)g4c::fail("cannot read " + quotedPath(first) + ": " + text.getError().message()), nullptr;
    llvm::SourceMgr source;
    source.AddNewSourceBuffer(std::move(*text), {});
    return parseSourceFile<ModuleOp>(source, &context);
  }
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

/// Where the result goes; "-": standard output.
std::string outputOf(const g4c::Options &o) {
  if (!o.output.empty())
    return o.output;
  if (o.emit != g4c::Emit::kArtifact)
    return "-";
  SmallString<128> path(o.inputs.front());
  llvm::sys::path::replace_extension(path, ".g4m");
  return path.str().str();
}

/// All files that are read: those given, and those that the module names, such as the other parts of a split model.
tool::FileUses usesOf(ModuleOp module, const g4c::Options &o) {
  tool::FileUses uses{o.pipeline.gemma.rules, o.pipeline.gemma.imatrix};
  for (const std::string &input : o.inputs)
    uses.reads(input);
  if (auto files = module->getAttrOfType<ArrayAttr>(gguf::kFilesAttr))
    for (auto name : files.getAsRange<StringAttr>())
      uses.reads(name.str());
  return uses;
}

LogicalResult check(const Status &status) {
  // Without a message: who was to read the output has left.
  return status.ok() ? success() : status.message().empty() ? failure() : g4c::fail(status.message());
}

/// Opens `path` before the work whose text goes there.
FailureOr<tool::OutputFile> open(const std::string &path, tool::FileUses &uses) {
  if (path == "-")
    return tool::OutputFile::standardOutput();
  auto file = tool::OutputFile::create(path, uses);
  if (!file.ok())
    return check(file.status());
  return *std::move(file);
}

LogicalResult write(tool::OutputFile file, function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return success(succeeded(check(file.append(text))) && succeeded(check(file.finish())));
}

/// Finds out before the work whether a file can be made, without making it.
LogicalResult checkOutput(const std::string &path, tool::FileUses &uses) {
  if (Status status = uses.writes(path); !status.ok())
    return check(status);
  return check(AtomicFile::create(path).status());
}

LogicalResult compile(MLIRContext &context, const g4c::Options &o) {
  g4c::Progress progress;
  OwningOpRef<ModuleOp> module = load(context, o);
  if (!module)
    return failure();
  std::optional<Stage> from = stageOf(*module);
  if (!from)
    return g4c::fail(quotedPath(o.inputs.front()) + " holds neither a gemma.model nor an exec.program");
  if (*from != Stage::kGguf && o.quantizes())
    return g4c::fail(quotedPath(o.inputs.front()) + " is past the stage in which weights are quantised: start from the GGUF file");
  const std::string output = outputOf(o);
  tool::FileUses uses = usesOf(*module, o);
  if (o.emit == g4c::Emit::kGgufFile) {
    if (failed(checkOutput(output, uses)))
      return failure();
    if (*from == Stage::kGguf &&
        failed(runPasses(*module, [&](OpPassManager &pm) { gemma::buildQuantizePipeline(pm, o.pipeline.gemma); })))
      return failure();
    progress.phase("writing tensors");
    return emit::writeGguf(*module, {output, [&](uint64_t done, uint64_t all) { progress.bytes(done, all); }});
  }
  Stage last = o.emit == g4c::Emit::kGguf    ? Stage::kGguf
               : o.emit == g4c::Emit::kGemma ? Stage::kGemma
               : o.emit == g4c::Emit::kExec || o.dryRun ? Stage::kExec
                                                        : Stage::kTile;
  auto runStages = [&] {
    return runPasses(*module, [&](OpPassManager &pm) { buildPipeline(pm, *from, last, o.pipeline); });
  };
  if (o.dryRun) {
    if (failed(runStages()))
      return failure();
    auto plan = emit::planArtifact(*module);
    if (failed(plan))
      return failure();
    return write(tool::OutputFile::standardOutput(), [&](llvm::raw_ostream &os) {
      o.json ? g4c::printPlanJson(*plan, os) : g4c::printPlan(*plan, os);
    });
  }
  if (o.emit != g4c::Emit::kArtifact) {
    auto file = open(output, uses);
    if (failed(file) || failed(runStages()))
      return failure();
    if (o.emit < g4c::Emit::kLlvm)
      return write(*std::move(file), [&](llvm::raw_ostream &os) {
        module->print(os, OpPrintingFlags().enableDebugInfo(true, false));
        os << "\n";
      });
    auto kind = o.emit == g4c::Emit::kLlvm  ? cpu::Output::kLlvmIr
                : o.emit == g4c::Emit::kAsm ? cpu::Output::kAssembly
                                            : cpu::Output::kObject;
    auto text = compileFor(*module, *cpu::findVariant(o.cpus.front()), kind);
    if (failed(text))
      return failure();
    return write(*std::move(file), [&](llvm::raw_ostream &os) { os << *text; });
  }
  if (failed(checkOutput(output, uses)) || failed(runStages()))
    return failure();
  if (!o.beginNote.empty())
    llvm::errs() << o.beginNote << "\n";
  progress.phase("packing weights");
  auto packed = [&](uint64_t done, uint64_t all) { progress.bytes(done, all); };
  // Meanwhile, kernels are compiled: that keeps the cores busy, and the weights the disk.
  std::vector<const cpu::Variant *> levels;
  for (const std::string &name : o.cpus)
    levels.push_back(cpu::findVariant(name));
  auto kernels = std::async(context.isMultithreadingEnabled() ? std::launch::async : std::launch::deferred, [&] {
    return cpu::compileKernels(*module, levels, [](PassManager &pm) { return applyPassManagerCLOptions(pm); });
  });
  auto code = [&]() -> FailureOr<std::vector<emit::CodeVariant>> {
    progress.phase("generating code");
    auto objects = kernels.get();
    if (failed(objects))
      return failure();
    std::vector<emit::CodeVariant> result;
    for (auto [level, files] : llvm::zip(levels, *objects)) {
      auto shared = cpu::link(module->getLoc(), files);
      if (failed(shared))
        return failure();
      result.push_back({"cpu", level->name, {level->needs.begin(), level->needs.end()}, std::move(*shared)});
    }
    return result;
  };
  return emit::emitArtifact(*module, code, {output, g4c::producer(), o.weightsMissing, packed});
}

} // namespace

int g4c::run(int argc, char **argv) {
  tool::reserveStandardStreams();
  tool::reportFatalErrors("g4c");
  Options options = parseOptions(argc, argv);
  DialectRegistry registry;
  registry.insert<gguf::GgufDialect, gemma::GemmaDialect, exec::ExecDialect, tile::TileDialect>();
  cpu::registerCpuDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // an error is one line
  support::DiagnosticPrinter printer(&context, llvm::errs(), "g4c");
  return succeeded(compile(context, options)) ? 0 : 1;
}
