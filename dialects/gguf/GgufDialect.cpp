#include "dialects/gguf/GgufDialect.h"
#include "compiler/import/gguf/Gguf.h"

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

int64_t getBlockElements(ElementType type) { return typeInfo(static_cast<uint32_t>(type))->blockElements; }
int64_t getBlockBytes(ElementType type) { return typeInfo(static_cast<uint32_t>(type))->blockBytes; }

bool isFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

const module::PackedLayout &getPackedLayout(ElementType type) {
  return *module::packedLayout(stringifyElementType(type));
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
        FloatAttr(), FlatSymbolRefAttr(), ElementTypeAttr());
}

LogicalResult WeightOp::verify() {
  if (getExtents().empty()) // weight_c3
    return emitOpError("has no bytes: expected at least one extent");
  if (getStored() && (*getStored() == getMatrixType().getElement() || getFactor())) // weight_c7
    return emitOpError() << "is stored as " << stringifyElementType(*getStored()) << ", but "
                         << (getFactor() ? "has a factor" : "that is its type");
  if (getMatrixType().getColumns() % getBlockElements(getStoredElement())) // weight_c7
    return emitOpError() << "has " << getMatrixType().getColumns() << " columns, no multiple of "
                         << stringifyElementType(getStoredElement()) << "'s block";
  int64_t size = 0, expected = getMatrixType().getRows() * getStoredRowBytes();
  for (auto extent : getExtents().getAsRange<ExtentAttr>())
    size += extent.getSize();
  if (size != expected) // weight_c1
    return emitOpError() << "has extents of " << size << " bytes, but " << getType()
                         << (getStored() ? (" stored as " + stringifyElementType(*getStored())).str() : "") << " takes "
                         << expected;
  if (getScale() && getMatrixType().getRows() == 1) // weight_c5
    return emitOpError("has a scale, but only matrices take one: it has one row");
  if (!getFactor())
    return success();
  if (getMatrixType().getRows() != 1 || !isFloat(getMatrixType().getElement())) // weight_c2
    return emitOpError() << "has a factor, but " << getType() << " is not one row of floats";
  float factor = getFactorOrOne();
  if (!std::isfinite(factor) || factor == 0.0f) // weight_c4
    return emitOpError() << "has factor " << factor << ", expected a finite number other than 0";
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbols) { // weight_c6
  if (!getScale())
    return success();
  auto scale = symbols.lookupNearestSymbolFrom<WeightOp>(*this, getScaleAttr());
  if (!scale)
    return emitOpError("has the scale ") << getScaleAttr() << ", which is no weight";
  MatrixType type = scale.getMatrixType();
  if (type.getElement() != ElementType::kF32 || type.getRows() != 1 || scale.getFactor())
    return emitOpError("has the scale ") << getScaleAttr() << " of " << type << ", expected one row of plain f32";
  if (getMatrixType().getRows() % type.getColumns())
    return emitOpError() << "has " << getMatrixType().getRows() << " rows, which " << type.getColumns()
                         << " scales do not divide";
  return success();
}

} // namespace g4::gguf
