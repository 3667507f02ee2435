#include "passes/lower/GemmaToExec.h"
#include "passes/lower/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace g4::lower {
#define GEN_PASS_DEF_LOWERGEMMATOEXECPASS
#include "passes/lower/Passes.h.inc"

ActivationBuffers Lowering::activation(const Twine &name, RowSet set, int64_t columns, InputForms forms, int64_t copies) {
  ActivationBuffers a;
  if (forms.f32)
    a.f32 = buffer(name, set, columns, b.getF32Type(), copies);
  if (forms.q8) {
    a.q = buffer(name + ".q", set, columns, b.getI8Type(), copies);
    a.scale = buffer(name + ".scale", set, columns / 32, b.getF32Type(), copies);
    a.sums = buffer(name + ".sums", set, columns / 16, b.getI32Type(), copies);
  }
  return a;
}

FlatSymbolRefAttr Lowering::scaleOf(gguf::WeightOp weight) {
  // Rows that are converted have it in their values, packed rows of nvfp4 beside them.
  bool apart = !weight.getStored() && weight.getMatrixType().getElement() != gguf::ElementType::kNVFP4;
  return apart ? weight.getScaleAttr() : FlatSymbolRefAttr();
}
MatrixAttr Lowering::matrixOf(gguf::WeightOp weight, int64_t rows) {
  gguf::MatrixType type = weight.getMatrixType();
  FlatSymbolRefAttr scale = scaleOf(weight);
  return MatrixAttr::get(b.getContext(), type.getElement(), rows, type.getColumns(),
                         scale ? weightOp(scale).getMatrixType().getColumns() : 0);
}
MatrixAttr Lowering::matrixOf(gguf::PartAttr part, int64_t experts) {
  return matrixOf(weightOp(part.getWeight()), part.getRows() * experts);
}
MatrixAttr Lowering::matrixOf(FlatSymbolRefAttr symbol) {
  gguf::WeightOp weight = weightOp(symbol);
  return matrixOf(weight, weight.getMatrixType().getRows());
}
void Lowering::putWeight(llvm::StringMap<Value> &operands, size_t index, gguf::PartAttr part, int64_t experts) {
  operands["w" + std::to_string(index)] = weight(Storage::packed, part, experts);
  if (FlatSymbolRefAttr scale = scaleOf(weightOp(part.getWeight())))
    operands["s" + std::to_string(index)] = weight(Storage::vector, scale);
}
Value Lowering::weight(Storage storage, gguf::PartAttr part, int64_t experts) {
  auto stored = StorageAttr::get(b.getContext(), storage);
  return WeightOp::create(b, weightOp(part.getWeight()).getLoc(), WeightType::get(b.getContext()), stored, part, matrixOf(part, experts),
                          /*offset=*/IntegerAttr(), /*size=*/IntegerAttr());
}
Value Lowering::weight(Storage storage, FlatSymbolRefAttr symbol) {
  auto part = gguf::PartAttr::get(b.getContext(), symbol, 0, matrixOf(symbol).getRows(), 0);
  return weight(storage, part);
}

InputForms Lowering::formsNeeded(Value x) {
  InputForms forms;
  auto merge = [&](InputForms more) {
    forms.f32 |= more.f32;
    forms.q8 |= more.q8;
  };
  for (Operation *user : x.getUsers()) {
    TypeSwitch<Operation *>(user)
        .Case([&](gemma::LinearOp l) {
          SmallVector<MatrixAttr> parts;
          for (auto p : l.getParts().getAsRange<gguf::PartAttr>())
            parts.push_back(matrixOf(p));
          merge(inputForms(parts, int8));
        })
        .Case([&](gemma::PerLayerInputsOp p) { merge(inputForms({matrixOf(p.getProjection())}, int8)); })
        .Case([&](gemma::LogitsOp l) { merge(inputForms({matrixOf(l.getHeadAttr())}, int8)); })
        .Case([&](gemma::ExpertsOp e) { merge(inputForms({matrixOf(e.getGate()), matrixOf(e.getUp())}, int8)); })
        .Default([&](Operation *) { forms.f32 = true; }); // hidden: returned and gathered as f32
  }
  return forms;
}

void Lowering::dispatch(Attribute spec, StringRef name, llvm::StringMap<Value> &operands, RowSet set,
                        Operation *from, int64_t macs,
                        ArrayRef<std::pair<std::string, std::string>> taps) {
  std::string symbol = (name + "_" + Twine(kernelCount++)).str();
  KernelOp::create(kernels, from->getLoc(), symbol, spec);
  SmallVector<Value> reads, writes;
  SmallVector<int64_t> tapOperands;
  SmallVector<Attribute> tapNames;
  for (const Argument &a : signatureOf(spec)) {
    Value operand = operands.lookup(a.name);
    if (!operand)
      emitError(from->getLoc()) << "lowering of " << from->getName() << " has no operand for '" << a.name << "' of " << symbol;
    for (auto &[argument, tap] : taps)
      if (argument == a.name) {
        tapOperands.push_back(writes.size());
        tapNames.push_back(b.getStringAttr(tap));
      }
    (a.written ? writes : reads).push_back(operand);
  }
  int64_t layer = gemma::getLayer(from).value_or(-1);
  Geometry items = geometryOf(spec);
  DispatchOp::create(b, from->getLoc(), symbol, reads, writes, set, items.rowsPerItem, items.itemsPerBlock, layer, macs, tapOperands,
                     b.getArrayAttr(tapNames));
}
LogicalResult Lowering::lower(Operation *op) {
  loc = op->getLoc();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](gemma::LinearOp o) { return lowerLinear(o); })
      .Case([&](gemma::AttentionOp o) { return lowerAttention(o); })
      .Case([&](gemma::PerLayerInputsOp o) { return lowerPerLayerInputs(o); })
      .Case([&](gemma::ExpertsOp o) { return lowerExperts(o); })
      .Case([&](gemma::LogitsOp o) { return lowerLogits(o); })
      .Case([&](gemma::ReturnOp o) {
        if (failed(needActivation(o.getHidden())))
          return failure();
        hiddenBuffer = activations.lookup(o.getHidden()).f32;
        // The hidden rows are a stream for the gather of the logit rows.
        ReturnOp::create(b, loc, ValueRange{logitsBuffer, hiddenBuffer, maximaBuffer}, b.getStrArrayAttr({"logits", "hidden", "logit_maxima"}));
        return success();
      })
      .Case([&](gemma::KvSharedOp o) {
        return o.emitOpError("names no donor: run gemma-resolve-donors first");
      })
      .Default([&](Operation *) { return success(); }); // part of a row chain, a prologue or an epilogue
}

LogicalResult Lowering::run() {
  if (!model.getActivations() || !model.getKvType())
    return model.emitOpError("has no activation and K/V types: run gemma-quantize first");
  int8 = *model.getActivations() == gemma::ActivationType::kInt8;
  kvElement = *gguf::symbolizeElementType(gemma::stringifyKvElement(*model.getKvType())); // the same names
  kernels.setInsertionPoint(model);
  b.setInsertionPoint(model);
  auto program = ProgramOp::create(b, model.getLoc(), "step", maxRows, maxRows, maxLogitRows, model->getAttrDictionary(), IntegerAttr(), IntegerAttr());
  b.setInsertionPointToEnd(&program.getBody().emplaceBlock());
  for (Operation &op : model.getBody().front())
    if (failed(lower(&op)))
      return failure();
  model.erase();
  return success();
}

namespace {
struct LowerGemmaToExecPass : impl::LowerGemmaToExecPassBase<LowerGemmaToExecPass> {
  using Base::Base;
  void runOnOperation() override {
    for (gemma::ModelOp model : llvm::make_early_inc_range(getOperation().getOps<gemma::ModelOp>()))
      if (failed(Lowering(model, maxRows, maxLogitRows).run()))
        return signalPassFailure();
  }
};
} // namespace

} // namespace g4::lower
