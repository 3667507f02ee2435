// g4-opt: runs passes on IR, as mlir-opt does; also on a GGUF file, which it imports first, and through the
// reference evaluator.
//   g4-opt model.gguf --gemma-pipeline
//   g4-opt model.gguf --gemma-pipeline --evaluate --ids=2,17,301 --out=folder
//     [--tail=0,2 --logits=2] [--experts=folder with router_idx<layer>.npy]
#include "compiler/import/Importer.h"
#include "compiler/support/Diagnostics.h"
#include "compiler/targets/cpu/Cpu.h"
#include "compiler/targets/vulkan/Vulkan.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/gemma/GemmaDialect.h"
#include "dialects/gguf/GgufDialect.h"
#include "dialects/tile/TileDialect.h"
#include "passes/exec/Passes.h"
#include "passes/gemma/Passes.h"
#include "passes/gemma/Pipeline.h"
#include "passes/lower/Passes.h"
#include "runtime/base/Text.h"
#include "tools/common/CommandLine.h"
#include "tools/llvm/LlvmTool.h"
#include "tools/g4-opt/Evaluate.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

namespace {

void registerEverything(mlir::DialectRegistry &registry) {
  registry
      .insert<g4::gguf::GgufDialect, g4::gemma::GemmaDialect, g4::exec::ExecDialect, g4::tile::TileDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                  mlir::gpu::GPUDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::scf::SCFDialect, mlir::spirv::SPIRVDialect,
                  mlir::tensor::TensorDialect, mlir::ub::UBDialect, mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  mlir::registerConversionPasses();
  mlir::memref::registerMemRefPasses();
  g4::gemma::registerGemmaPasses();
  g4::gemma::registerGemmaPipeline();
  g4::lower::registerG4LowerPasses();
  g4::exec::registerG4ExecPasses();
  g4::vulkan::registerG4VulkanPasses();
  g4::cpu::registerG4CpuPasses();
}

int fail(const std::string &message) {
  llvm::errs() << "g4-opt: error: " << message << "\n";
  return g4::tool::kExitBadInput;
}

/// A file with this ending is one even if it cannot be read: the importer says why.
bool isGguf(const std::string &path) {
  return llvm::StringRef(path).ends_with(".gguf") || (path != "-" && g4::tool::isGguf(path));
}

/// Text, or MLIR's bytecode; a line of anything else is no help in a message.
bool isIr(llvm::StringRef bytes) {
  return bytes.starts_with("ML\xefR") || !bytes.take_front(4096).contains('\0');
}

/// The imported module as text with locations, for MlirOptMain; null after an error.
std::unique_ptr<llvm::MemoryBuffer> importToText(mlir::DialectRegistry &registry, const std::string &path) {
  mlir::MLIRContext context(registry);
  g4::support::DiagnosticPrinter printer(&context, llvm::errs(), "g4-opt");
  auto module = g4::importer::importGguf(context, path, {.allowMissingData = true});
  if (!module)
    return nullptr;
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return llvm::MemoryBuffer::getMemBufferCopy(text, path);
}

int evaluate(mlir::DialectRegistry &registry, const mlir::MlirOptMainConfig &config, const std::string &path,
             const g4::EvaluateFlags &flags, g4::reference::EvaluateOptions options) {
  mlir::MLIRContext context(registry);
  g4::support::DiagnosticPrinter printer(&context, llvm::errs(), "g4-opt");
  mlir::OwningOpRef<mlir::ModuleOp> module = isGguf(path)
                                                 ? g4::importer::importGguf(context, path, {})
                                                 : mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return 1;
  mlir::PassManager pm(&context);
  if (mlir::failed(config.setupPassPipeline(pm)) || mlir::failed(pm.run(*module)))
    return 1;
  g4::tool::FileUses uses{path};
  const g4::Status status = g4::evaluateToFiles(*module, flags, std::move(options), uses);
  return status.ok() ? 0 : fail(status.message());
}

int run(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerEverything(registry);

  g4::EvaluateFlags flags;
  llvm::SmallVector<char *> rest;
  for (int i = 0; i < argc; ++i)
    if (i == 0 || !flags.parse(argv[i]))
      rest.push_back(argv[i]);
  // As mlir-opt's own parser has them, but that one ends with 1 after bad usage.
  llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("<file>"), llvm::cl::init("-"));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("Output file (default: standard output)"),
                                    llvm::cl::value_desc("file"), llvm::cl::init("-"));
  const std::string overview = mlir::registerCLIOptions("g4-opt: runs compiler passes\n", registry);
  g4::tool::parseLlvmOptions("g4-opt", static_cast<int>(rest.size()), rest.data(), overview);
  auto options = flags.options();
  if (!options.ok())
    g4::tool::badUsage("g4-opt", options.status().message());
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (flags.evaluate)
    return evaluate(registry, config, input, flags, *std::move(options));

  std::string message;
  auto buffer = isGguf(input) ? importToText(registry, input) : mlir::openInputFile(input, &message);
  if (!buffer)
    return message.empty() ? 1 : fail(message);
  if (!isIr(buffer->getBuffer()))
    return fail(g4::quotedPath(input.getValue()) + " is neither IR nor a GGUF file");
  g4::tool::FileUses uses{input};
  auto file = g4::tool::OutputFile::standardOutput();
  if (output != "-") {
    auto opened = g4::tool::OutputFile::create(output, uses);
    if (!opened.ok())
      return fail(opened.status().message());
    file = *std::move(opened);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (mlir::failed(mlir::MlirOptMain(stream, std::move(buffer), registry, config)))
    return 1;
  g4::Status written = file.append(text);
  if (written.ok())
    written = file.finish();
  return written.ok() ? 0 : fail(written.message());
}

} // namespace

int main(int argc, char **argv) {
  g4::tool::reserveStandardStreams();
  llvm::InitLLVM init(argc, argv);
  g4::tool::reportFatalErrors("g4-opt");
  return run(argc, argv);
}
