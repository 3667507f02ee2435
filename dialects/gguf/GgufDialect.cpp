#include "dialects/gguf/GgufDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace {

// Custom directives of Gguf.td.

ParseResult parseSizes(AsmParser &parser, int64_t &rows, int64_t &columns) {
  SmallVector<int64_t, 2> sizes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(sizes, /*allowDynamic=*/false, /*withTrailingX=*/false))
    return failure();
  if (sizes.size() != 2)
    return parser.emitError(loc) << "expected rows x columns, found " << sizes.size() << " sizes";
  rows = sizes[0];
  columns = sizes[1];
  return success();
}

void printSizes(AsmPrinter &printer, int64_t rows, int64_t columns) { printer << rows << 'x' << columns; }

ParseResult parseExtents(OpAsmParser &parser, ArrayAttr &extents) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    g4::gguf::ExtentAttr extent;
    if (parser.parseCustomAttributeWithFallback(extent))
      return failure();
    list.push_back(extent);
    return success();
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  extents = parser.getBuilder().getArrayAttr(list);
  return success();
}

void printExtents(OpAsmPrinter &printer, Operation *, ArrayAttr extents) {
  llvm::interleaveComma(extents.getAsRange<g4::gguf::ExtentAttr>(), printer,
                        [&](g4::gguf::ExtentAttr extent) { printer.printStrippedAttrOrType(extent); });
}

struct Block {
  int64_t elements;
  int64_t bytes;
};

Block blockOf(g4::gguf::ElementType type) {
  using enum g4::gguf::ElementType;
  switch (type) {
  case kF32:
    return {1, 4};
  case kF16:
  case kBF16:
    return {1, 2};
  case kQ4_0:
    return {32, 18};
  case kQ4_1:
    return {32, 20};
  case kQ5_0:
    return {32, 22};
  case kQ5_1:
    return {32, 24};
  case kQ8_0:
    return {32, 34};
  case kQ2_K:
    return {256, 84};
  case kQ3_K:
    return {256, 110};
  case kQ4_K:
    return {256, 144};
  case kQ5_K:
    return {256, 176};
  case kQ6_K:
    return {256, 210};
  }
  llvm_unreachable("every element type is listed");
}

} // namespace

#include "dialects/gguf/GgufDialect.cpp.inc"
#include "dialects/gguf/GgufEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/gguf/GgufAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/gguf/GgufTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/gguf/GgufOps.cpp.inc"

namespace g4::gguf {

int64_t getBlockElements(ElementType type) { return blockOf(type).elements; }
int64_t getBlockBytes(ElementType type) { return blockOf(type).bytes; }

bool isFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

void GgufDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/gguf/GgufAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/gguf/GgufTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/gguf/GgufOps.cpp.inc"
      >();
}

LogicalResult PartAttr::verify(function_ref<InFlightDiagnostic()> emitError, FlatSymbolRefAttr weight,
                               int64_t first, int64_t rows, int64_t stride) {
  if (first < 0 || rows <= 0) // part_c1
    return emitError() << "rows [" << first << ", " << first + rows << ") of @" << weight.getValue()
                       << " are no range";
  if (stride != 0 && stride < first + rows) // part_c2
    return emitError() << "stride " << stride << " is less than the part's end " << first + rows;
  return success();
}

LogicalResult ExtentAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t file, int64_t offset,
                                 int64_t size) {
  if (file < 0 || offset < 0 || size <= 0) // extent_c1
    return emitError() << "file " << file << ", offset " << offset << ", size " << size
                       << " is no range of bytes";
  return success();
}

LogicalResult MatrixType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows, int64_t columns,
                                 ElementType element) {
  if (rows <= 0 || columns <= 0) // matrix_c1
    return emitError() << "a matrix of " << rows << " rows and " << columns << " columns is empty";
  if (columns % getBlockElements(element)) // matrix_c2
    return emitError() << columns << " columns are not a multiple of " << stringifyElementType(element)
                       << "'s block of " << getBlockElements(element);
  return success();
}

int64_t MatrixType::getRowBytes() const {
  return getColumns() / getBlockElements(getElement()) * getBlockBytes(getElement());
}

void WeightOp::build(OpBuilder &builder, OperationState &state, StringRef name, MatrixType type,
                     ArrayRef<Attribute> extents) {
  build(builder, state, builder.getStringAttr(name), TypeAttr::get(type), builder.getArrayAttr(extents),
        FloatAttr());
}

LogicalResult WeightOp::verify() {
  if (getExtents().empty()) // weight_c3
    return emitOpError("has no bytes: expected at least one extent");
  int64_t size = 0;
  for (auto extent : getExtents().getAsRange<ExtentAttr>())
    size += extent.getSize();
  if (size != getMatrixType().getSizeInBytes()) // weight_c1
    return emitOpError() << "has extents of " << size << " bytes, but " << getType() << " takes "
                         << getMatrixType().getSizeInBytes();
  if (!getFactor())
    return success();
  if (getMatrixType().getRows() != 1 || !isFloat(getMatrixType().getElement())) // weight_c2
    return emitOpError() << "has a factor, but " << getType() << " is not one row of floats";
  float factor = getFactorOrOne();
  if (!std::isfinite(factor) || factor == 0.0f) // weight_c4
    return emitOpError() << "has factor " << factor << ", expected a finite number other than 0";
  return success();
}

} // namespace g4::gguf
