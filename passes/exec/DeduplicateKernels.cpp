#include "dialects/exec/ExecDialect.h"
#include "passes/exec/Passes.h"

using namespace mlir;

namespace g4::exec {
#define GEN_PASS_DEF_DEDUPLICATEKERNELSPASS
#include "passes/exec/Passes.h.inc"
namespace {

struct DeduplicateKernelsPass : impl::DeduplicateKernelsPassBase<DeduplicateKernelsPass> {
  void runOnOperation() override {
    DenseMap<Attribute, KernelOp> first;
    DenseMap<StringAttr, FlatSymbolRefAttr> replacement;
    for (KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (!kernel.getBody().empty())
        continue; // only specifications are compared
      auto [it, isNew] = first.try_emplace(kernel.getSpec(), kernel);
      if (isNew)
        continue;
      replacement[kernel.getSymNameAttr()] = FlatSymbolRefAttr::get(it->second.getSymNameAttr());
      kernel.erase();
    }
    getOperation().walk([&](DispatchOp dispatch) {
      if (auto to = replacement.lookup(dispatch.getKernelAttr().getAttr()))
        dispatch.setKernelAttr(to);
    });
  }
};

} // namespace
} // namespace g4::exec
