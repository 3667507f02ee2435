/// The Vulkan target: kernels to SPIR-V compute shaders. A tracer so far: it keeps `tile` honest; no artifact
/// carries its code yet.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <cstdint>
#include <vector>

namespace g4::vulkan {
#define GEN_PASS_DECL
#include "compiler/targets/vulkan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/targets/vulkan/Passes.h.inc"

/// Adds the passes from kernels with bodies to SPIR-V modules.
void buildVulkanPipeline(mlir::OpPassManager &pm);

/// The words of the module's one SPIR-V shader module, whose entry points are named as the kernels were. To
/// run a kernel, bind argument i's buffer at set 0, binding i, and dispatch one workgroup for each work item,
/// along x. Buffer sizes must be multiples of 4 bytes. Errors: reported through the context's diagnostics.
mlir::FailureOr<std::vector<uint32_t>> generateShaders(mlir::ModuleOp module);

} // namespace g4::vulkan
