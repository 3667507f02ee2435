#include "dialects/tile/Codebooks.h"
#include "compiler/quants/Grids.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace g4::tile {

template <class T> static Value constantTable(OpBuilder &b, Location loc, StringRef name, ArrayRef<T> values) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  auto type = MemRefType::get({int64_t(values.size())}, b.getIntegerType(8 * sizeof(T)));
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
  std::string name = "codebook_" + gguf::stringifyElementType(element).str();
  const quants::Grid *grid = quants::gridOf(static_cast<gguf::Type>(element));
  if (!grid)
    return constantTable<int32_t>(b, loc, name, SmallVector<int32_t>(tableOf(element)));
  bool eighths = element == gguf::ElementType::kIQ1_S || element == gguf::ElementType::kIQ1_M;
  SmallVector<int64_t> entries;
  for (size_t point = 0; point < grid->points.size(); ++point) {
    uint64_t entry = 0;
    for (unsigned j = 0; j < grid->length; ++j)
      entry |= uint64_t(uint8_t(grid->value(point, j) * (eighths ? 8 : 1))) << (8 * j);
    entries.push_back(int64_t(entry));
  }
  if (grid->length == 8)
    return constantTable<int64_t>(b, loc, name, entries);
  return constantTable<int32_t>(b, loc, name, SmallVector<int32_t>(entries.begin(), entries.end()));
}

Value powersOfThree(OpBuilder &b, Location loc) {
  return constantTable<int32_t>(b, loc, "powers_of_three", {1, 3, 9, 27, 81});
}

} // namespace g4::tile
