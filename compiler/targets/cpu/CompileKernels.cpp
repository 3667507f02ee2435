#include "compiler/targets/cpu/Cpu.h"
#include "dialects/exec/ExecDialect.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Threading.h"

using namespace mlir;

namespace g4::cpu {
namespace {

/// One kernel for one level, and for the higher ones on which it is the same.
struct Unit {
  ModuleOp module; ///< of this kernel alone
  const Variant *level;
  std::string object;
};

/// Code for `low` runs on `high` and is as fast there: the same processor for the code generator, with more features.
bool covers(const Variant &low, const Variant &high) {
  return StringRef(low.llvmCpu) == high.llvmCpu && low.vectorBits == high.vectorBits &&
         StringRef(low.architecture) == high.architecture &&
         llvm::all_of(low.needs, [&](StringRef need) { return llvm::is_contained(high.needs, need); });
}

/// A module of modules, each with one kernel and the tables that it reads.
OwningOpRef<ModuleOp> takeApart(ModuleOp module) {
  SymbolTable symbols(module);
  OwningOpRef<ModuleOp> all = ModuleOp::create(module.getLoc());
  OpBuilder b(module.getContext());
  for (exec::KernelOp kernel : module.getOps<exec::KernelOp>()) {
    b.setInsertionPointToEnd(all->getBody());
    auto own = ModuleOp::create(b, kernel.getLoc());
    b.setInsertionPointToEnd(own.getBody());
    SetVector<Operation *> tables;
    kernel.walk([&](memref::GetGlobalOp use) {
      if (Operation *table = symbols.lookup(use.getName()))
        tables.insert(table);
    });
    for (Operation *table : tables)
      b.clone(*table);
    b.clone(*kernel);
  }
  return all;
}

class Compiler {
public:
  Compiler(ModuleOp module, function_ref<LogicalResult(PassManager &)> configure)
      : module(module), context(module.getContext()), configure(configure), distinct(ModuleOp::create(module.getLoc())) {}

  FailureOr<std::vector<std::vector<std::string>>> run(ArrayRef<const Variant *> levels) {
    // Lowest first, so that higher levels find what they can share.
    std::vector<std::vector<Unit *>> kernels(levels.size());
    for (size_t i = levels.size(); i-- > 0;)
      if (failed(lower(*levels[i], ArrayRef(kernels).drop_front(i + 1), kernels[i])))
        return failure();
    // Between MLIR's own conversions nothing is verified: that costs as much as half of them.
    if (failed(runPasses(*distinct, buildLlvmPipeline, /*verify=*/false)))
      return failure();
    if (failed(failableParallelForEach(context, units, [](std::unique_ptr<Unit> &unit) {
          auto object = generateCode(unit->module, *unit->level, Output::kObject);
          if (succeeded(object))
            unit->object = std::move(*object);
          return LogicalResult(object);
        })))
      return failure();
    std::vector<std::vector<std::string>> result(levels.size());
    for (auto [ofLevel, objects] : llvm::zip(kernels, result))
      for (Unit *unit : ofLevel)
        objects.push_back(unit->object);
    return result;
  }

private:
  LogicalResult runPasses(ModuleOp modules, function_ref<void(OpPassManager &)> build, bool verify) {
    PassManager pm(context);
    pm.enableVerifier(verify);
    if (failed(configure(pm)))
      return failure();
    build(pm.nest<ModuleOp>());
    return pm.run(modules);
  }

  /// Lowers all kernels for `level` as far as levels differ; takes over `lower` levels' units where they are the same.
  LogicalResult lower(const Variant &level, ArrayRef<std::vector<Unit *>> lower, std::vector<Unit *> &kernels) {
    OwningOpRef<ModuleOp> all = takeApart(module);
    if (failed(runPasses(*all, [&](OpPassManager &pm) { buildLevelPipeline(pm, level); }, /*verify=*/true)))
      return failure();
    for (ModuleOp own : llvm::make_early_inc_range(all->getOps<ModuleOp>())) {
      auto isSame = [&](const std::vector<Unit *> &other) {
        Unit *unit = other[kernels.size()];
        return covers(*unit->level, level) &&
               OperationEquivalence::isEquivalentTo(unit->module, own, OperationEquivalence::IgnoreLocations);
      };
      if (auto same = llvm::find_if(lower, isSame); same != lower.end()) {
        kernels.push_back((*same)[kernels.size()]);
        continue;
      }
      own->moveBefore(distinct->getBody(), distinct->getBody()->end());
      units.push_back(std::make_unique<Unit>(Unit{own, &level, {}}));
      kernels.push_back(units.back().get());
    }
    return success();
  }

  ModuleOp module;
  MLIRContext *context;
  function_ref<LogicalResult(PassManager &)> configure;
  OwningOpRef<ModuleOp> distinct; ///< the units' modules
  std::vector<std::unique_ptr<Unit>> units;
};

} // namespace

FailureOr<std::vector<std::vector<std::string>>>
compileKernels(ModuleOp module, ArrayRef<const Variant *> levels, function_ref<LogicalResult(PassManager &)> configure) {
  return Compiler(module, configure).run(levels);
}

} // namespace g4::cpu
