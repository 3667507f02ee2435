#include "dialects/exec/ExecDialect.h"
#include "passes/exec/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace g4::exec {
#define GEN_PASS_DEF_PLACEBARRIERSPASS
#include "passes/exec/Passes.h.inc"
namespace {

/// What two values must not be touched at the same time by: the buffer, or a layer's pages.
const void *storageOf(Value v) {
  if (BufferOp buffer = bufferOf(v))
    return buffer.getOperation();
  if (auto kv = v.getDefiningOp<KvOp>()) // equal ops name the same pages
    return kv.getLayerAttr().getAsOpaquePointer();
  return nullptr; // weights and slots are only read
}

struct PlaceBarriersPass : impl::PlaceBarriersPassBase<PlaceBarriersPass> {
  void runOnOperation() override {
    getOperation().walk([](ProgramOp program) {
      SmallVector<BarrierOp> old(program.getBody().getOps<BarrierOp>());
      for (BarrierOp barrier : old)
        barrier.erase();
      llvm::SmallPtrSet<const void *, 16> read, written;
      for (DispatchOp dispatch : program.getBody().getOps<DispatchOp>()) {
        bool conflict = llvm::any_of(dispatch.getReads(), [&](Value v) { return written.contains(storageOf(v)); }) ||
                        llvm::any_of(dispatch.getWrites(), [&](Value v) {
                          return written.contains(storageOf(v)) || read.contains(storageOf(v));
                        });
        if (conflict) {
          OpBuilder b(dispatch);
          BarrierOp::create(b, dispatch.getLoc());
          read.clear();
          written.clear();
        }
        for (Value v : dispatch.getReads())
          if (const void *s = storageOf(v))
            read.insert(s);
        for (Value v : dispatch.getWrites())
          if (const void *s = storageOf(v))
            written.insert(s);
      }
    });
  }
};

} // namespace
} // namespace g4::exec
