#include "dialects/exec/ExecDialect.h"
#include "passes/exec/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace g4::exec {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "passes/exec/Passes.h.inc"
namespace {

// Threads write neighbouring buffers at the same time: no two share a cache line (or an adjacent-line pair).
constexpr uint64_t kBufferAlignment = 128;

struct Interval {
  BufferOp op;
  uint64_t size;
  int first, last; ///< phases
  size_t index;    ///< order of first use: ties are broken by it, so that equal inputs give equal plans
  uint64_t offset = 0;
};

struct PlanMemoryPass : impl::PlanMemoryPassBase<PlanMemoryPass> {
  /// First fit at the lowest offset for buffers in the given order; returns the arena's size.
  static uint64_t place(MutableArrayRef<Interval *> order) {
    uint64_t arena = 0;
    SmallVector<Interval *> placed; // by offset
    for (Interval *x : order) {
      uint64_t at = 0;
      for (Interval *y : placed) {
        if (y->last < x->first || x->last < y->first)
          continue;
        if (at + x->size <= y->offset)
          break;
        at = std::max(at, y->offset + y->size);
      }
      x->offset = at;
      arena = std::max(arena, at + x->size);
      placed.insert(llvm::lower_bound(placed, x, [](Interval *a, Interval *b) { return a->offset < b->offset; }), x);
    }
    return arena;
  }

  void plan(ProgramOp program) {
    llvm::MapVector<Value, Interval> intervals;
    int phase = 0;
    auto touch = [&](Value v, int at) {
      BufferOp buffer = bufferOf(v);
      if (!buffer)
        return;
      BufferType type = buffer.getType();
      uint64_t size = type.getRowBytes() * program.capacity(type.getSet());
      size = (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
      auto [it, isNew] = intervals.try_emplace(buffer.getResult(), Interval{buffer, size, at, at, intervals.size()});
      it->second.last = std::max(it->second.last, at);
    };
    for (Operation &op : program.getBody().front()) {
      if (isa<BarrierOp>(op))
        ++phase;
      else if (isa<DispatchOp, ReturnOp>(op))
        for (Value v : op.getOperands())
          touch(v, phase);
    }
    SmallVector<uint64_t> live(phase + 1, 0);
    SmallVector<Interval *> order;
    for (auto &entry : intervals) {
      order.push_back(&entry.second);
      for (int p = entry.second.first; p <= entry.second.last; ++p)
        live[p] += entry.second.size;
    }
    // Large buffers first, then long-lived ones; and by first use. Neither order is best for every program: the
    // smaller arena of the two is taken.
    auto bySize = order, byStart = order;
    llvm::sort(bySize, [](Interval *a, Interval *b) {
      return std::make_tuple(b->size, b->last - b->first, a->index) < std::make_tuple(a->size, a->last - a->first, b->index);
    });
    llvm::sort(byStart, [](Interval *a, Interval *b) {
      return std::make_tuple(a->first, b->size, a->index) < std::make_tuple(b->first, a->size, b->index);
    });
    uint64_t start = place(byStart), arena = place(bySize);
    if (start < arena)
      arena = place(byStart);
    Builder b(&getContext());
    for (Interval *x : order)
      x->op.setOffsetAttr(b.getI64IntegerAttr(x->offset));
    program.setArenaBytesAttr(b.getI64IntegerAttr(arena));
    program.setPeakLiveBytesAttr(b.getI64IntegerAttr(live.empty() ? 0 : *llvm::max_element(live)));
  }

  void runOnOperation() override {
    getOperation().walk([&](ProgramOp program) { plan(program); });
  }
};

} // namespace
} // namespace g4::exec
