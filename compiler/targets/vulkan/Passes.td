#ifndef G4_TARGETS_VULKAN_PASSES
#define G4_TARGETS_VULKAN_PASSES

include "mlir/Pass/PassBase.td"

def PlaceLaneBarriersPass : Pass<"tile-place-lane-barriers", "::mlir::ModuleOp"> {
  let summary = "Adds the barriers that a kernel body needs when a strip is sixteen lanes.";
  let description = [{
    Bodies are written as if a strip were one vector. When its elements are lanes that run by themselves, what one
    lane writes and another reads needs a barrier between the two, in both orders. Control flow is the same in all
    lanes (conditions and bounds are scalars), so a barrier may stand anywhere.

    An access is by *lane* (a strip is loaded or stored: strips start at multiples of sixteen elements, so an
    element always belongs to the same lane) or by *all* (a scalar or a row of activations: each lane accesses the
    same elements, and writes the same values). Two accesses of one memref need no barrier if both read, or both
    are by lane, or both are writes by all. Between any other two stands a barrier; a loop or a conditional
    counts as all its accesses at once, so that a barrier for its sake comes before it and not into it. A
    `tile.reduce` contains a barrier.

    ```mlir
    vector.store %x, %scratch[%m, %k] : memref<4x64xf32>, vector<16xf32>
    %s = memref.load %scratch[%m, %c] : memref<4x64xf32>
    ```
    becomes
    ```mlir
    vector.store %x, %scratch[%m, %k] : memref<4x64xf32>, vector<16xf32>
    tile.barrier
    %s = memref.load %scratch[%m, %c] : memref<4x64xf32>
    ```
  }];
  let dependentDialects = ["::g4::tile::TileDialect"];
}

def LowerTileToGpuPass : Pass<"lower-tile-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Turns kernels into functions of a gpu.module: a strip becomes one element in each of sixteen lanes.";
  let description = [{
    A workgroup does one work item, whose number is the workgroup's; its sixteen invocations are the lanes of a
    strip. Scratch becomes workgroup memory, packed weights become arrays of dwords, of which each lane decodes
    its own row. Barriers are where `tile-place-lane-barriers` put them. Programs and weights are dropped.

    ```mlir
    exec.kernel @k : #exec.linear<...> { ^bb0(%x: memref<?x64xf32>, ..., %begin: index, %end: index): ... }
    ```
    becomes
    ```mlir
    gpu.module @kernels { gpu.func @k(%x: memref<?x64xf32>, ...) kernel { %item = gpu.block_id x ... } }
    ```
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def LowerGpuToSpirvPass : Pass<"lower-gpu-to-spirv", "::mlir::ModuleOp"> {
  let summary = "Converts gpu modules to SPIR-V 1.3 shaders for Vulkan, all dialects in one conversion.";
  let description = [{
    Memrefs without a memory space are storage buffers, argument i at set 0, binding i. Sums and products are
    marked so that a driver does not fuse them.

    ```mlir
    gpu.module @kernels { gpu.func @k(%x: memref<?x64xf32>) kernel { ... } }
    ```
    becomes
    ```mlir
    spirv.module @__spv__kernels Logical GLSL450 { spirv.func @k(...) ... }
    ```
  }];
  let dependentDialects = ["::mlir::spirv::SPIRVDialect", "::mlir::memref::MemRefDialect"];
}

#endif
