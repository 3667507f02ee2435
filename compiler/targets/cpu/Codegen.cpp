#include "compiler/targets/cpu/Cpu.h"

#include "lld/Common/Driver.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

LLD_HAS_DRIVER(elf)

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

void buildCpuPipeline(OpPassManager &pm, const Variant &variant) {
  pm.addPass(createLowerTileToCpuPass(LowerTileToCpuPassOptions{variant.isa}));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createConvertVectorToSCFPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

namespace {

std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Variant &variant, std::string &error) {
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  if (StringRef(variant.architecture) == "x86-64") {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  } else {
    triple = llvm::Triple("aarch64-unknown-linux-gnu");
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  }
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
      passes, "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),gvn,"
              "instcombine<no-verify-fixpoint>,dse,adce,simplifycfg)");
  if (error)
    return llvm::toString(std::move(error));
  passes.run(module, mam);
  return "";
}

FailureOr<std::string> link(ModuleOp module, StringRef object) {
  auto fail = [&](const Twine &what) -> FailureOr<std::string> {
    return module.emitError() << "linking kernels: " << what.str();
  };
  // lld reads and writes files only; both are removed whatever happens.
  SmallString<128> in, out;
  int fd = -1;
  if (auto error = llvm::sys::fs::createTemporaryFile("g4", "o", fd, in))
    return fail(error.message());
  llvm::FileRemover removeIn(in);
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    os << object;
    os.close();
    if (os.has_error()) {
      auto error = os.error();
      os.clear_error();
      return fail(error.message());
    }
  }
  if (auto error = llvm::sys::fs::createTemporaryFile("g4", "so", out))
    return fail(error.message());
  llvm::FileRemover removeOut(out);
  std::vector<const char *> args{"ld.lld", "-shared", "--hash-style=gnu", "-z", "defs", "-z", "relro", "-z", "now",
                                 "--build-id=none", "-s", "--threads=1", "-o", out.c_str(), in.c_str()};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode)
    return fail(messages);
  auto buffer = llvm::MemoryBuffer::getFile(out);
  if (!buffer)
    return fail(buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

} // namespace

FailureOr<std::string> generateCode(ModuleOp module, const Variant &variant, Output output) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
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
  StringRef text(bytes.data(), bytes.size());
  if (output != Output::kShared)
    return text.str();
  return link(module, text);
}

} // namespace g4::cpu
