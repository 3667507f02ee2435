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

/// Adds lower-tile-to-cpu and the conversions to the LLVM dialect.
void buildCpuPipeline(mlir::OpPassManager &pm, const Variant &variant);
/// From the LLVM dialect to `output`'s bytes. Reports through the context's diagnostics.
mlir::FailureOr<std::string> generateCode(mlir::ModuleOp module, const Variant &variant, Output output);

} // namespace g4::cpu
