#include "dialects/exec/ExecDialect.h"
#include "dialects/exec/Signature.h"
#include "passes/exec/Passes.h"

using namespace mlir;

namespace g4::exec {
#define GEN_PASS_DEF_PACKWEIGHTSPASS
#include "passes/exec/Passes.h.inc"
namespace {

// A cache line: packed vectors are loaded whole.
constexpr uint64_t kWeightAlignment = 64;

struct PackWeightsPass : impl::PackWeightsPassBase<PackWeightsPass> {
  /// Bytes of the weight as stored.
  uint64_t sizeOf(WeightOp op) {
    MatrixAttr m = op.getMatrix();
    switch (op.getStorage()) {
    case Storage::vector:
      return uint64_t(m.getRows()) * m.getColumns() * 4;
    case Storage::table:
      return uint64_t(m.getRows()) * tableRowBytes(m.getElement(), m.getColumns());
    case Storage::packed:
      return gguf::getPackedLayout(m.getElement()).matrixBytes(m.getRows(), m.getColumns());
    }
    llvm_unreachable("every storage is listed");
  }

  void runOnOperation() override {
    DenseMap<std::tuple<Attribute, Attribute, Attribute>, int64_t> places;
    uint64_t end = 0;
    getOperation().walk([&](WeightOp op) {
      uint64_t size = sizeOf(op);
      auto key = std::make_tuple(Attribute(op.getStorageAttr()), op.getPart(), Attribute(op.getMatrix()));
      auto [it, isNew] = places.try_emplace(key, int64_t(end));
      if (isNew)
        end = (end + size + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
      Builder b(&getContext());
      op.setOffsetAttr(b.getI64IntegerAttr(it->second));
      op.setSizeAttr(b.getI64IntegerAttr(size));
    });
  }
};

} // namespace
} // namespace g4::exec
