#include "dialects/tile/Codebooks.h"
#include "compiler/quants/Grids.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace g4::tile {

static Value constantTable(OpBuilder &b, Location loc, StringRef name, ArrayRef<int32_t> values) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  auto type = MemRefType::get({int64_t(values.size())}, b.getI32Type());
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    auto data = DenseElementsAttr::get(RankedTensorType::get(type.getShape(), type.getElementType()), values);
    memref::GlobalOp::create(b, loc, name, b.getStringAttr("private"), type, data, /*constant=*/true,
                             b.getI64IntegerAttr(64));
  }
  return memref::GetGlobalOp::create(b, loc, type, name);
}

ArrayRef<int8_t> tableOf(gguf::ElementType element) {
  switch (element) {
  case gguf::ElementType::kIQ4_NL:
  case gguf::ElementType::kIQ4_XS:
    return quants::kIq4Values;
  case gguf::ElementType::kMXFP4:
  case gguf::ElementType::kNVFP4:
    return quants::kFp4Values;
  default:
    return {};
  }
}

Value codebook(OpBuilder &b, Location loc, gguf::ElementType element) {
  SmallVector<int32_t> values(tableOf(element));
  std::string name = "codebook_" + gguf::stringifyElementType(element).str();
  const quants::Grid *grid = quants::gridOf(static_cast<gguf::Type>(element));
  if (!grid)
    return constantTable(b, loc, name, values);
  bool eighths = element == gguf::ElementType::kIQ1_S || element == gguf::ElementType::kIQ1_M;
  for (size_t point = 0; point < grid->points.size(); ++point)
    for (unsigned first = 0; first < grid->length; first += 4) {
      uint32_t dword = 0;
      for (unsigned j = 0; j < 4; ++j)
        dword |= uint32_t(uint8_t(grid->value(point, first + j) * (eighths ? 8 : 1))) << (8 * j);
      values.push_back(int32_t(dword));
    }
  return constantTable(b, loc, name, values);
}

Value powersOfThree(OpBuilder &b, Location loc) { return constantTable(b, loc, "powers_of_three", {1, 3, 9, 27, 81}); }

} // namespace g4::tile
