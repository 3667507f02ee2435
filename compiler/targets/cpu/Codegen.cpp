#include "compiler/targets/cpu/BlockDecoder.h"
#include "compiler/targets/cpu/Cpu.h"
#include "passes/lower/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace g4::cpu {

const std::vector<Variant> &variants() {
  const std::vector<const char *> v3 = {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"};
  const auto v3And = [&](std::vector<const char *> more) {
    more.insert(more.end(), v3.begin(), v3.end());
    return more;
  };
  static const std::vector<Variant> all = {
      {"avx512-vnni", "x86-64", "avx512-vnni", "x86-64-v4", "+avx512vnni",
       v3And({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni"}), 512},
      {"avx-vnni", "x86-64", "avx-vnni", "x86-64-v3", "+avxvnni", v3And({"avxvnni"}), 256},
      {"x86-64-v3", "x86-64", "avx2", "x86-64-v3", "", v3, 256},
      // "generic" is ARMv8.0 with NEON. In this order because matrices cost more to put together than they save, by the
      // models of the processors (docs/targets.md).
      {"armv8.2-dotprod", "aarch64", "dotprod", "generic", "+dotprod", {"neon", "dotprod"}, 128},
      {"armv8.6-i8mm", "aarch64", "i8mm", "generic", "+dotprod,+i8mm", {"neon", "dotprod", "i8mm"}, 128},
  };
  return all;
}

const Variant *findVariant(StringRef name) {
  for (const Variant &v : variants())
    if (name == v.name)
      return &v;
  return nullptr;
}

const Variant *hostVariant() {
  auto features = llvm::sys::getHostCPUFeatures();
  for (const Variant &v : variants())
    if (llvm::all_of(v.needs, [&](const char *f) { return features.lookup(f); }))
      return &v;
  return nullptr;
}

void registerCpuDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertFuncToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Rows whose int sums, with a code and an activation each, fill the registers: 16 of 256 bits, 32 of 512 or of 128 bits.
static int64_t rowTile(Isa isa) { return isa == Isa::kAvx512Vnni || isa == Isa::kEmulated ? 8 : 4; }

void buildLevelPipeline(OpPassManager &pm, const Variant &variant) {
  pm.addPass(lower::createScheduleContractionsPass({rowTile(*parseIsa(variant.isa)), /*panels=*/true}));
  pm.addPass(createLowerTileToCpuPass(LowerTileToCpuPassOptions{variant.isa}));
}

void buildLlvmPipeline(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void buildCpuPipeline(OpPassManager &pm, const Variant &variant) {
  buildLevelPipeline(pm, variant);
  buildLlvmPipeline(pm);
}

namespace {

/// LLVM keeps its targets in a global list.
void initialiseTargets() {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)once;
}

std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Variant &variant, std::string &error) {
  initialiseTargets();
  llvm::Triple triple(StringRef(variant.architecture) == "x86-64" ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  // Products and sums are fused where the kernels say so and nowhere else: results must not depend on the optimiser.
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, variant.llvmCpu, variant.llvmFeatures, options, llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
}

/// Returns what went wrong, or nothing.
std::string optimise(llvm::Module &module, llvm::TargetMachine &machine, const Variant &variant) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &f : module) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("target-cpu", variant.llvmCpu);
    f.addFnAttr("target-features", variant.llvmFeatures);
    f.addFnAttr("prefer-vector-width", std::to_string(variant.vectorBits));
    // The object must be complete in itself: no loop may become a call of memcpy or memset.
    f.addFnAttr("no-builtins");
    f.addFnAttr(llvm::Attribute::NoUnwind);
  }
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder pb(&machine);
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  // The bodies are vectors already, unrolled as far as a weight block goes, and cleaned by MLIR's passes. What is left
  // is address arithmetic and invariant loads: the default pipelines find no more and take twice as long.
  llvm::ModulePassManager passes;
  llvm::Error error = pb.parsePassPipeline(
      passes, "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
              "early-cse<memssa>,adce,simplifycfg)");
  if (error)
    return llvm::toString(std::move(error));
  passes.run(module, mam);
  return "";
}

} // namespace

FailureOr<std::string> generateCode(ModuleOp module, const Variant &variant, Output output) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, "g4");
  if (!llvmModule)
    return module.emitError("translation to LLVM IR failed");
  std::string error;
  auto machine = makeTargetMachine(variant, error);
  if (!machine)
    return module.emitError() << "no code generator for " << variant.architecture << ": " << error;
  if (std::string message = optimise(*llvmModule, *machine, variant); !message.empty())
    return module.emitError() << "optimising kernels: " << message;
  if (output == Output::kLlvmIr) {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvmModule->print(os, nullptr);
    return text;
  }
  SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager codegen;
  auto type = output == Output::kAssembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, type))
    return module.emitError("the code generator cannot write this output");
  codegen.run(*llvmModule);
  std::string text(bytes.data(), bytes.size());
  if (output != Output::kShared)
    return text;
  return link(module.getLoc(), text);
}

} // namespace g4::cpu
