/// The CPU target: kernels to x86-64 or AArch64 machine code in a self-contained ELF shared object.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace g4::cpu {
#define GEN_PASS_DECL
#include "compiler/targets/cpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/targets/cpu/Passes.h.inc"

/// One CPU level that code is generated for.
struct Variant {
  const char *name;                       ///< of `--cpu`
  const char *architecture;               ///< "x86-64" or "aarch64"
  const char *isa;                        ///< option of lower-tile-to-cpu
  const char *llvmCpu, *llvmFeatures;     ///< for the code generator
  std::vector<const char *> needs;        ///< features that the loader checks: all that the code may use
  unsigned vectorBits;
};
/// All levels, those of one architecture together and best first.
const std::vector<Variant> &variants();
const Variant *findVariant(llvm::StringRef name);
/// The best level that this machine runs; null below x86-64-v3.
const Variant *hostVariant();

/// Where to stop.
enum class Output { kLlvmIr, kAssembly, kObject, kShared };

/// What the functions below need of a context, all of it loaded before the first call: the dialects that kernels are
/// lowered through, and how each becomes LLVM IR.
void registerCpuDialects(mlir::DialectRegistry &registry);

/// Adds the passes from the tile stage on that depend on the level: the schedule of contractions, lower-tile-to-cpu.
void buildLevelPipeline(mlir::OpPassManager &pm, const Variant &variant);
/// Adds the conversions from what these leave to the LLVM dialect; the same for all levels.
void buildLlvmPipeline(mlir::OpPassManager &pm);
/// Adds both.
void buildCpuPipeline(mlir::OpPassManager &pm, const Variant &variant);
/// From the LLVM dialect to `output`'s bytes, all kernels in one LLVM module. Reports through the context's diagnostics.
/// Threads: free for other modules, but for Output::kShared, which links.
mlir::FailureOr<std::string> generateCode(mlir::ModuleOp module, const Variant &variant, Output output);

/// For each of `levels` the object files of all kernels, from `module` in the tile stage, which stays as it is. Kernels are
/// lowered and compiled apart, on the context's threads; the bytes don't depend on how many those are. A kernel that is
/// the same on several levels is compiled once, for the lowest of them.
/// `configure` prepares each pass manager: instrumentation that the user asked for.
/// Threads: others may read `module` and use its context meanwhile. Errors: as generateCode.
mlir::FailureOr<std::vector<std::vector<std::string>>>
compileKernels(mlir::ModuleOp module, llvm::ArrayRef<const Variant *> levels,
               llvm::function_ref<mlir::LogicalResult(mlir::PassManager &)> configure);
/// Links object files, in their order, to a shared object in which nothing is undefined. `loc` is what errors are about.
/// Threads: one at a time in the process (lld's state is global).
mlir::FailureOr<std::string> link(mlir::Location loc, llvm::ArrayRef<std::string> objects);

} // namespace g4::cpu
