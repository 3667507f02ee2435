#include "compiler/targets/vulkan/Vulkan.h"
#include "dialects/exec/ExecDialect.h"
#include "dialects/tile/TileDialect.h"
#include "runtime/module/StepAbi.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace g4::vulkan {
#define GEN_PASS_DEF_PLACELANEBARRIERSPASS
#include "compiler/targets/vulkan/Passes.h.inc"
namespace {

enum Access : unsigned { kLaneRead = 1, kLaneWrite = 2, kAllRead = 4, kAllWrite = 8 };

/// Accesses to each memref since the last barrier. The null value stands for the memory of tile.reduce.
using Accesses = llvm::SmallMapVector<Value, unsigned, 8>;

void add(Accesses &to, const Accesses &more) {
  for (auto [memref, kinds] : more)
    to[memref] |= kinds;
}

/// The accesses that a barrier must separate from these.
unsigned against(unsigned kinds) {
  unsigned result = 0;
  if (kinds & kLaneRead)
    result |= kAllWrite;
  if (kinds & kLaneWrite)
    result |= kAllRead | kAllWrite;
  if (kinds & kAllRead)
    result |= kLaneWrite | kAllWrite;
  // A scalar that is overwritten: a slow lane could still be before its read, or write the old value once
  // more.
  if (kinds & kAllWrite)
    result |= kLaneRead | kLaneWrite | kAllRead;
  return result;
}

bool conflict(const Accesses &before, const Accesses &next) {
  return llvm::any_of(next, [&](auto &entry) {
    auto it = before.find(entry.first);
    return it != before.end() && (it->second & against(entry.second));
  });
}

/// What one operation without regions does to memory. Fails for one that is not known here.
LogicalResult accessesOf(Operation *op, Accesses &to) {
  auto note = [&](Value memref, Access kind) {
    to[memref] |= kind;
    return success();
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](memref::LoadOp load) { return note(load.getMemRef(), kAllRead); })
      .Case([&](memref::StoreOp store) { return note(store.getMemRef(), kAllWrite); })
      .Case([&](vector::LoadOp load) { // vectors that are no strips are the bytes of a scalar
        return note(load.getBase(),
                    load.getVectorType().getNumElements() == module::kLanes ? kLaneRead : kAllRead);
      })
      .Case([&](vector::StoreOp store) { return note(store.getBase(), kLaneWrite); })
      .Case([&](tile::DotOp dot) {
        for (Value activations : {dot.getQ(), dot.getScale(), dot.getSums()})
          (void)note(activations, kAllRead);
        return success();
      })
      .Case([&](tile::DotF32Op dot) { return note(dot.getX(), kAllRead); })
      .Case([&](tile::DequantOp dequant) { return note(dequant.getTo(), kLaneWrite); })
      .Case([&](tile::ReduceOp) { return note({}, kLaneWrite); })
      // The bytes of weights are never written, and a prefetch reads nothing.
      .Case<tile::LoadQuantOp, memref::AllocaOp, memref::PrefetchOp, exec::EndOp>([](auto) { return success(); })
      .Default([](Operation *other) { return success(isMemoryEffectFree(other)); });
}

class Placer {
public:
  LogicalResult place(Block &block) {
    Accesses start;
    return walk(block, start);
  }

private:
  void barrierBefore(Operation *op, Accesses &since) {
    OpBuilder b(op);
    tile::BarrierOp::create(b, op->getLoc());
    since.clear();
  }

  /// Places barriers in `block`, before which `since` was done; `since` becomes what was done since the last
  /// one.
  LogicalResult walk(Block &block, Accesses &since) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (isa<tile::BarrierOp>(op)) {
        since.clear();
        continue;
      }
      if (op.getNumRegions() ? failed(structure(&op, since)) : failed(simple(&op, since)))
        return failure();
    }
    return success();
  }

  LogicalResult simple(Operation *op, Accesses &since) {
    Accesses own;
    if (failed(accessesOf(op, own)))
      return op->emitOpError("accesses memory in a way that has no meaning for lanes");
    if (conflict(since, own))
      barrierBefore(op, since);
    if (isa<tile::ReduceOp>(op)) {
      since.clear(); // its own barrier stands between the lanes' writes and everyone's reads
      own[Value()] = kAllRead;
    }
    add(since, own);
    return success();
  }

  LogicalResult structure(Operation *op, Accesses &since) {
    if (!isa<scf::ForOp, scf::IfOp>(op))
      return op->emitOpError("has no meaning for lanes: only scf.for and scf.if are expected");
    Accesses all;
    op->walk([&](Operation *inner) {
      if (!inner->getNumRegions())
        (void)accessesOf(inner, all); // failures are found again, one by one
    });
    if (conflict(since, all))
      barrierBefore(op, since);
    Accesses after = since;
    for (Region &region : op->getRegions()) {
      if (region.empty())
        continue;
      Accesses inside = since;
      if (failed(walk(region.front(), inside)))
        return failure();
      // Once more after itself: the next turn of a loop follows this one.
      if (isa<scf::ForOp>(op)) {
        add(inside, since);
        if (failed(walk(region.front(), inside)))
          return failure();
      }
      add(after, inside);
    }
    since = std::move(after);
    return success();
  }
};

struct PlaceLaneBarriersPass : impl::PlaceLaneBarriersPassBase<PlaceLaneBarriersPass> {
  void runOnOperation() override {
    for (exec::KernelOp kernel : getOperation().getOps<exec::KernelOp>())
      if (!kernel.getBody().empty() && failed(Placer().place(kernel.getBody().front())))
        return signalPassFailure();
  }
};

} // namespace
} // namespace g4::vulkan
