#include "dialects/gemma/GemmaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/gemma/GemmaDialect.cpp.inc"
#include "dialects/gemma/GemmaEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/gemma/GemmaAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/gemma/GemmaTypes.cpp.inc"

namespace g4::gemma {

void GemmaDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/gemma/GemmaAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/gemma/GemmaTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/gemma/GemmaOps.cpp.inc"
      >();
}

bool isActivation(Type type, char element) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 2 && tensor.isDynamicDim(0) && !tensor.isDynamicDim(1) &&
         !tensor.getEncoding() &&
         (element == 'f' ? tensor.getElementType().isF32() : tensor.getElementType().isSignlessInteger(32));
}

RankedTensorType getActivationType(MLIRContext *context, int64_t columns) {
  return RankedTensorType::get({ShapedType::kDynamic, columns}, Float32Type::get(context));
}

std::optional<int64_t> getLayer(Operation *op) {
  if (auto layer = op->getAttrOfType<IntegerAttr>("layer"))
    return layer.getInt();
  return std::nullopt;
}

std::optional<std::string> getTapName(Operation *op) {
  auto tap = op->getAttrOfType<TapKindAttr>("tap");
  if (!tap)
    return std::nullopt;
  std::string name = stringifyTapKind(tap.getValue()).str();
  if (auto inputs = dyn_cast<PerLayerInputsOp>(op)) // of one layer or of several
    return name + std::to_string(inputs.getFirstLayer());
  if (std::optional<int64_t> layer = getLayer(op))
    name += std::to_string(*layer);
  return name;
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t dim, FloatAttr base,
                               FlatSymbolRefAttr factors, int64_t turning) {
  if (dim <= 0 || dim % 2) // rope_attr_c1
    return emitError() << "rope dimension " << dim << " is not even and positive";
  if (!base || !base.getType().isF64() || !(base.getValueAsDouble() > 1.0)) // rope_attr_c2
    return emitError() << "rope base is not an f64 above 1";
  if (turning < 0 || turning > (factors ? 0 : dim / 2)) // rope_attr_c3
    return emitError() << "rope turns " << turning << " pairs, expected 0 to " << (factors ? 0 : dim / 2);
  return success();
}

LogicalResult LayerAttr::verify(function_ref<InFlightDiagnostic()> emitError, LayerKind, KvOwner,
                                int64_t kvSource, int64_t heads, int64_t kvHeads, int64_t headDim, int64_t ff,
                                int64_t experts, int64_t expertFf) {
  if (heads <= 0 || kvHeads <= 0 || headDim <= 0 || ff <= 0) // layer_c1
    return emitError() << "heads " << heads << ", kv_heads " << kvHeads << ", head_dim " << headDim
                       << " and ff " << ff << " must be positive";
  if (heads % kvHeads) // layer_c2
    return emitError() << heads << " heads are not a multiple of " << kvHeads << " K/V heads";
  if (experts < 0 || expertFf < 0 || (experts == 0) != (expertFf == 0)) // layer_c3
    return emitError() << "experts " << experts << " and expert_ff " << expertFf
                       << " must be both 0 or both positive";
  if (kvSource < -1) // layer_c4
    return emitError() << "kv_source " << kvSource << " is neither a layer nor -1";
  return success();
}

LayerAttr LayerAttr::withKvSource(int64_t layer) const {
  return LayerAttr::get(getContext(), getKind(), getKv(), layer, getHeads(), getKvHeads(), getHeadDim(),
                        getFf(), getExperts(), getExpertFf());
}

LogicalResult KvType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t heads, int64_t dim,
                             int64_t window) {
  if (heads <= 0 || dim <= 0 || window < 0) // kv_type_c1
    return emitError() << "K/V of " << heads << " heads of " << dim << " elements and window " << window
                       << " is impossible";
  return success();
}

} // namespace g4::gemma
