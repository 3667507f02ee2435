#include "dialects/exec/ExecDialect.h"
#include "passes/lower/Passes.h"
#include "passes/lower/TileBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace g4::lower {
#define GEN_PASS_DEF_LOWEREXECTOTILEPASS
#include "passes/lower/Passes.h.inc"
namespace {

struct LowerExecToTilePass : impl::LowerExecToTilePassBase<LowerExecToTilePass> {
  using Base::Base;
  void runOnOperation() override {
    for (exec::KernelOp kernel : getOperation().getOps<exec::KernelOp>()) {
      if (!kernel.getBody().empty())
        continue; // written before: resumed from a printed module
      TileBuilder t(kernel);
      TypeSwitch<Attribute>(kernel.getSpec())
          .Case([&](exec::LinearAttr s) { buildLinear(t, s); })
          .Case([&](exec::AttentionAttr s) { buildAttention(t, s, splitAttention); })
          .Case([&](exec::RowKernelAttr s) { buildRowKernel(t, s); })
          .Case([&](exec::SortExpertsAttr s) { buildSortExperts(t, s); })
          .Case([&](exec::ExpertsAttr s) { buildExperts(t, s); });
    }
  }
};

} // namespace
} // namespace g4::lower
