#include "compiler/targets/vulkan/Vulkan.h"
#include "passes/lower/Passes.h"

#include "mlir/Conversion/ArithToSPIRV/ArithToSPIRV.h"
#include "mlir/Conversion/GPUToSPIRV/GPUToSPIRV.h"
#include "mlir/Conversion/MathToSPIRV/MathToSPIRV.h"
#include "mlir/Conversion/MemRefToSPIRV/MemRefToSPIRV.h"
#include "mlir/Conversion/SCFToSPIRV/SCFToSPIRV.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Dialect/SPIRV/IR/TargetAndABI.h"
#include "mlir/Dialect/SPIRV/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/Transforms/SPIRVConversion.h"
#include "mlir/Target/SPIRV/Serialization.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace g4::vulkan {
#define GEN_PASS_DEF_LOWERGPUTOSPIRVPASS
#include "compiler/targets/vulkan/Passes.h.inc"
namespace {

/// What the shaders may use: 8-bit and 16-bit storage and arithmetic, nothing of subgroups.
spirv::TargetEnvAttr targetEnv(MLIRContext *context) {
  using spirv::Capability, spirv::Extension;
  auto triple =
      spirv::VerCapExtAttr::get(spirv::Version::V_1_3,
                                {Capability::Shader, Capability::Float16, Capability::Int8, Capability::Int16,
                                 Capability::StorageBuffer8BitAccess, Capability::StorageBuffer16BitAccess},
                                {Extension::SPV_KHR_storage_buffer_storage_class,
                                 Extension::SPV_KHR_16bit_storage, Extension::SPV_KHR_8bit_storage},
                                context);
  return spirv::TargetEnvAttr::get(triple, spirv::getDefaultResourceLimits(context), spirv::ClientAPI::Vulkan,
                                   spirv::Vendor::Unknown, spirv::DeviceType::Unknown,
                                   spirv::TargetEnvAttr::kUnknownDeviceID);
}

std::optional<spirv::StorageClass> storageClass(Attribute space) {
  auto gpuSpace = dyn_cast_or_null<gpu::AddressSpaceAttr>(space);
  if (!gpuSpace)
    return spirv::mapMemorySpaceToVulkanStorageClass(space);
  return gpuSpace.getValue() == gpu::AddressSpace::Workgroup ? spirv::StorageClass::Workgroup
                                                             : spirv::StorageClass::StorageBuffer;
}

/// Orders accesses to buffers too: the stock pattern orders workgroup memory only.
struct BarrierPattern : OpConversionPattern<gpu::BarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::BarrierOp op, OpAdaptor,
                                ConversionPatternRewriter &rewriter) const override {
    using spirv::MemorySemantics;
    rewriter.replaceOpWithNewOp<spirv::ControlBarrierOp>(
        op, spirv::Scope::Workgroup, spirv::Scope::Workgroup,
        MemorySemantics::AcquireRelease | MemorySemantics::WorkgroupMemory | MemorySemantics::UniformMemory);
    return success();
  }
};

struct LowerGpuToSpirvPass : impl::LowerGpuToSpirvPassBase<LowerGpuToSpirvPass> {
  void runOnOperation() override {
    for (gpu::GPUModuleOp module : llvm::make_early_inc_range(getOperation().getOps<gpu::GPUModuleOp>()))
      if (failed(convert(module)))
        return signalPassFailure();
  }

  LogicalResult convert(gpu::GPUModuleOp module) {
    MLIRContext *context = &getContext();
    spirv::TargetEnvAttr env = targetEnv(context);
    module->setAttr(spirv::getTargetEnvAttrName(), env);
    for (gpu::GPUFuncOp function : module.getOps<gpu::GPUFuncOp>()) {
      ArrayRef<int32_t> size = function.getKnownBlockSize().value_or(ArrayRef<int32_t>());
      if (size.empty())
        return function.emitOpError("has no known_block_size");
      function->setAttr(spirv::getEntryPointABIAttrName(), spirv::getEntryPointABIAttr(context, size));
    }
    spirv::MemorySpaceToStorageClassConverter spaces(storageClass);
    spirv::convertMemRefTypesAndAttrs(module, spaces);

    SPIRVTypeConverter types(env);
    RewritePatternSet patterns(context);
    ScfToSPIRVContext loops;
    populateGPUToSPIRVPatterns(types, patterns);
    arith::populateArithToSPIRVPatterns(types, patterns);
    populateMathToSPIRVPatterns(types, patterns);
    populateMemRefToSPIRVPatterns(types, patterns);
    populateSCFToSPIRVPatterns(types, loops, patterns);
    patterns.add<BarrierPattern>(types, context, /*benefit=*/2);
    auto target = SPIRVConversionTarget::get(env);
    Operation *parent = module->getParentOp();
    if (failed(applyFullConversion(module, *target, std::move(patterns))))
      return failure();
    // Products and sums are fused where the kernels say so and nowhere else.
    parent->walk([&](Operation *op) {
      if (isa<spirv::FMulOp, spirv::FAddOp, spirv::FSubOp>(op))
        op->setAttr("no_contraction", UnitAttr::get(context));
    });
    return success();
  }
};

} // namespace

void buildVulkanPipeline(OpPassManager &pm) {
  pm.addPass(lower::createScheduleContractionsPass());
  pm.addPass(createPlaceLaneBarriersPass());
  pm.addPass(createLowerTileToGpuPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLowerGpuToSpirvPass());
  OpPassManager &shaders = pm.nest<spirv::ModuleOp>();
  shaders.addPass(spirv::createSPIRVLowerABIAttributesPass());
  shaders.addPass(spirv::createSPIRVUpdateVCEPass());
}

FailureOr<std::vector<uint32_t>> generateShaders(ModuleOp module) {
  auto shaders = llvm::to_vector(module.getOps<spirv::ModuleOp>());
  if (shaders.size() != 1)
    return module.emitError() << "has " << shaders.size() << " SPIR-V modules, expected one";
  SmallVector<uint32_t> words;
  if (failed(spirv::serialize(shaders[0], words)))
    return failure();
  return std::vector<uint32_t>(words.begin(), words.end());
}

} // namespace g4::vulkan
