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
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

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

bool isGguf(llvm::StringRef path) { return path.ends_with(".gguf"); }

/// The imported module as text with locations, for MlirOptMain; null after an error.
std::unique_ptr<llvm::MemoryBuffer> importToText(mlir::DialectRegistry &registry, const std::string &path) {
  mlir::MLIRContext context(registry);
  g4::support::DiagnosticPrinter printer(&context, llvm::errs());
  auto module = g4::importer::importGguf(context, path, {.allowMissingData = true});
  if (!module)
    return nullptr;
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return llvm::MemoryBuffer::getMemBufferCopy(text, path);
}

int evaluate(mlir::DialectRegistry &registry, const mlir::MlirOptMainConfig &config, const std::string &path,
             const g4::EvaluateFlags &flags) {
  mlir::MLIRContext context(registry);
  g4::support::DiagnosticPrinter printer(&context, llvm::errs());
  mlir::OwningOpRef<mlir::ModuleOp> module = isGguf(path)
                                                 ? g4::importer::importGguf(context, path, {})
                                                 : mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return 1;
  mlir::PassManager pm(&context);
  if (mlir::failed(config.setupPassPipeline(pm)) || mlir::failed(pm.run(*module)))
    return 1;
  if (g4::Status status = g4::evaluateToFiles(*module, flags); !status.ok()) {
    llvm::errs() << "g4-opt: " << status.message() << "\n";
    return 1;
  }
  return 0;
}

int run(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerEverything(registry);

  g4::EvaluateFlags flags;
  llvm::SmallVector<char *> rest;
  for (int i = 0; i < argc; ++i)
    if (i == 0 || !flags.parse(argv[i]))
      rest.push_back(argv[i]);
  auto [input, output] = mlir::registerAndParseCLIOptions(static_cast<int>(rest.size()), rest.data(),
                                                          "g4-opt: runs compiler passes\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (flags.evaluate)
    return evaluate(registry, config, input, flags);

  std::string message;
  auto buffer = isGguf(input) ? importToText(registry, input) : mlir::openInputFile(input, &message);
  if (!buffer) {
    llvm::errs() << message << (message.empty() ? "" : "\n");
    return 1;
  }
  auto file = mlir::openOutputFile(output, &message);
  if (!file) {
    llvm::errs() << message << "\n";
    return 1;
  }
  if (mlir::failed(mlir::MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return 1;
  file->keep();
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  return run(argc, argv);
}
