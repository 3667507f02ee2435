// RUN: g4-opt %s --lower-gpu-to-spirv | FileCheck %s

// CHECK: spirv.module @{{.*}} Logical GLSL450
// CHECK-DAG: spirv.GlobalVariable @{{.*}} : !spirv.ptr<!spirv.struct<(!spirv.array<16 x f32>)>, Workgroup>
// CHECK-LABEL: spirv.func @k
// CHECK-SAME: !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 0)>}
// CHECK-SAME: !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0])>, StorageBuffer> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 1)>}
// CHECK-SAME: spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [16, 1, 1]>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k(%x: memref<?x16xf32>, %q: memref<?xi8>) kernel attributes {known_block_size = array<i32: 16, 1, 1>} {
      %scratch = memref.alloc() : memref<16xf32, #gpu.address_space<workgroup>>
      %lane = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %v = memref.load %x[%c0, %lane] : memref<?x16xf32>
      memref.store %v, %scratch[%lane] : memref<16xf32, #gpu.address_space<workgroup>>
      // Buffers are ordered as well as workgroup memory.
      // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory>
      gpu.barrier
      %w = memref.load %scratch[%c0] : memref<16xf32, #gpu.address_space<workgroup>>
      // A product and a sum stay two roundings; a fused one is asked for.
      // CHECK: spirv.FMul %{{.*}}, %{{.*}} {no_contraction} : f32
      // CHECK: spirv.FAdd %{{.*}}, %{{.*}} {no_contraction} : f32
      // CHECK: spirv.GL.Fma
      %p = arith.mulf %v, %w : f32
      %s = arith.addf %p, %w : f32
      %f = math.fma %s, %w, %v : f32
      memref.store %f, %x[%c0, %lane] : memref<?x16xf32>
      %b = memref.load %q[%lane] : memref<?xi8>
      memref.store %b, %q[%c0] : memref<?xi8>
      gpu.return
    }
  }
}
