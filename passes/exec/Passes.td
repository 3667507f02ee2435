#ifndef G4_PASSES_EXEC
#define G4_PASSES_EXEC

include "mlir/Pass/PassBase.td"

def DeduplicateKernelsPass : Pass<"exec-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "Makes dispatches with equal kernel specifications share one kernel.";
  let description = [{
    ```mlir
    exec.kernel @linear_3 : #exec.linear<A> {}
    exec.kernel @linear_9 : #exec.linear<A> {}
    exec.dispatch @linear_9 ...
    ```
    becomes one kernel, the first, and a dispatch of it.
  }];
  let dependentDialects = ["::g4::exec::ExecDialect"];
}

def PackWeightsPass : Pass<"exec-pack-weights", "::mlir::ModuleOp"> {
  let summary = "Gives every weight its size and place in the artifact, each once.";
  let description = [{
    Equal uses (the tied head and the embedding table, a gain read twice) share their bytes. Weights lie in the
    order of their first use, which is the order a step streams them in.

    ```mlir
    %w = exec.weight packed #gguf.part<...> as <q4_0, ...>
    ```
    becomes
    ```mlir
    %w = exec.weight packed #gguf.part<...> as <q4_0, ...> at 4096 size 1769472
    ```
  }];
  let dependentDialects = ["::g4::exec::ExecDialect"];
}

def PlaceBarriersPass : Pass<"exec-place-barriers", "::mlir::ModuleOp"> {
  let summary = "Places the fewest barriers that keep the dependences between dispatches.";
  let description = [{
    A barrier goes before the first dispatch that reads or writes what a dispatch since the last barrier wrote, or
    writes what one read. In a straight list this greedy choice is optimal. Existing barriers are placed anew.

    ```mlir
    exec.dispatch @a reads(...) writes(%x)
    exec.dispatch @b reads(%x) writes(%y)
    ```
    becomes
    ```mlir
    exec.dispatch @a reads(...) writes(%x)
    exec.barrier
    exec.dispatch @b reads(%x) writes(%y)
    ```
  }];
  let dependentDialects = ["::g4::exec::ExecDialect"];
}

def PlanMemoryPass : Pass<"exec-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Places the buffers in one static arena by their lifetimes.";
  let description = [{
    Lifetimes are counted in phases, the stretches between two barriers: dispatches of one phase run at the same
    time, so buffers of one phase never share bytes. Records the arena's size and the most bytes that are live in
    any phase, which no plan can go below.

    ```mlir
    %x = exec.buffer "x" : !exec.buffer<rows, 1 x 1536 x f32>
    ```
    becomes
    ```mlir
    %x = exec.buffer "x" at 3145728 : !exec.buffer<rows, 1 x 1536 x f32>
    ```
  }];
  let dependentDialects = ["::g4::exec::ExecDialect"];
}

#endif
