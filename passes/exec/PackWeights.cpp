#include "dialects/exec/ExecDialect.h"
#include "passes/exec/Passes.h"
#include "runtime/module/PackedLayout.h"

using namespace mlir;

namespace g4::exec {
#define GEN_PASS_DEF_PACKWEIGHTSPASS
#include "passes/exec/Passes.h.inc"
namespace {

// A cache line: packed vectors are loaded whole.
constexpr uint64_t kWeightAlignment = 64;

struct PackWeightsPass : impl::PackWeightsPassBase<PackWeightsPass> {
  /// Bytes of the weight as stored; nothing when the layout is unknown.
  std::optional<uint64_t> sizeOf(WeightOp op) {
    MatrixAttr m = op.getMatrix();
    switch (op.getStorage()) {
    case Storage::vector:
      return uint64_t(m.getRows()) * m.getColumns() * 4;
    case Storage::table:
      return uint64_t(gguf::MatrixType::get(m.getContext(), m.getRows(), m.getColumns(), m.getElement()).getSizeInBytes());
    case Storage::packed:
      if (const module::PackedLayout *layout = module::packedLayout(gguf::stringifyElementType(m.getElement())))
        return layout->matrixBytes(m.getRows(), m.getColumns());
    }
    return std::nullopt;
  }

  void runOnOperation() override {
    DenseMap<std::tuple<Attribute, Attribute, Attribute>, int64_t> places;
    uint64_t end = 0;
    bool failed = false;
    getOperation().walk([&](WeightOp op) {
      std::optional<uint64_t> size = sizeOf(op);
      if (!size) {
        op.emitOpError("has no packed layout for ") << gguf::stringifyElementType(op.getMatrix().getElement());
        failed = true;
        return;
      }
      auto key = std::make_tuple(Attribute(op.getStorageAttr()), op.getPart(), Attribute(op.getMatrix()));
      auto [it, isNew] = places.try_emplace(key, int64_t(end));
      if (isNew)
        end = (end + *size + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
      Builder b(&getContext());
      op.setOffsetAttr(b.getI64IntegerAttr(it->second));
      op.setSizeAttr(b.getI64IntegerAttr(*size));
    });
    if (failed)
      signalPassFailure();
  }
};

} // namespace
} // namespace g4::exec
