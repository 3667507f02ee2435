/// The state of lower-gemma-to-exec: from values to buffers. Contractions and attention become dispatches in the order
/// of the model (LowerContractions.cpp); everything between two of them is collected into a row chain when the first
/// contraction asks for its input (LowerRowChains.cpp).
#pragma once

#include "dialects/exec/Signature.h"
#include "dialects/gemma/GemmaDialect.h"
#include "runtime/module/StepAbi.h"

#include "mlir/IR/Builders.h"

namespace g4::lower {

// Internal to this folder: the three files that include it say the same.
using namespace mlir;
using namespace exec;

/// The forms of one activation; absent ones are null.
struct ActivationBuffers {
  Value f32, q, scale, sums;
};

class Lowering {
public:
  Lowering(gemma::ModelOp model, int64_t maxRows, int64_t maxLogitRows)
      : model(model), module(model->getParentOfType<ModuleOp>()), b(model.getContext()), weights(module),
        maxRows(maxRows), maxLogitRows(maxLogitRows) {}
  LogicalResult run();

private:
  // A chain from a stored stream to a later value of it.
  struct Chain {
    gemma::SelectRowsOp gather;
    gemma::EmbedOp embed;
    Value base;                 ///< the stream it starts from, unless it starts at embed
    Value y;                    ///< what is added: the contraction's result (dense part with experts)
    FlatSymbolRefAttr postNorm, denseNorm, expertsNorm;
    gemma::ExpertsOp experts;
    gemma::LinearOp pleGate, pleProjection;
    Value pleInput; ///< one layer's per-layer inputs
    FlatSymbolRefAttr pleNorm, scale;
    SmallVector<gemma::RmsNormOp> norms;
    bool raw = false;           ///< the stream itself is an activation too
    gemma::RouteOp route;
    Operation *end = nullptr;   ///< defines the stream at the chain's end
  };
  struct Prologue {
    RowAttr row;
    llvm::StringMap<Value> operands;
    Chain chain;
    int64_t macs;
  };

  LogicalResult lower(Operation *op);
  LogicalResult lowerLinear(gemma::LinearOp op);
  LogicalResult lowerHeads(gemma::LinearOp op);
  LogicalResult lowerAttention(gemma::AttentionOp op);
  LogicalResult lowerPerLayerInputs(gemma::PerLayerInputsOp op);
  LogicalResult lowerExperts(gemma::ExpertsOp op);
  LogicalResult lowerLogits(gemma::LogitsOp op);

  /// Makes the activation `x` available: finds the buffers, or builds the chain that computes them.
  LogicalResult needActivation(Value x);
  LogicalResult needStream(Value h);
  Chain collect(Value h);
  LogicalResult emitChain(Value h, Chain chain);
  bool isPleLinear(gemma::LinearOp op);
  bool canBePrologue(const Chain &chain);

  // Pieces of the program.
  Value buffer(const Twine &name, RowSet set, int64_t columns, Type element, int64_t copies = 1) {
    auto type = BufferType::get(b.getContext(), set, copies, columns, element);
    return BufferOp::create(b, loc, type, b.getStringAttr(name), /*offset=*/IntegerAttr());
  }
  ActivationBuffers activation(const Twine &name, RowSet set, int64_t columns, InputForms forms, int64_t copies = 1);
  Value weight(Storage storage, FlatSymbolRefAttr symbol);
  Value weight(Storage storage, gguf::PartAttr part, int64_t experts = 1);
  /// Sets the operands w<index> and, where the weight's scale is an operand of its own, s<index>.
  void putWeight(llvm::StringMap<Value> &operands, size_t index, gguf::PartAttr part, int64_t experts = 1);
  /// The scale that the kernel applies to products; null when there is none.
  FlatSymbolRefAttr scaleOf(gguf::WeightOp weight);
  MatrixAttr matrixOf(gguf::WeightOp weight, int64_t rows);
  MatrixAttr matrixOf(gguf::PartAttr part, int64_t experts = 1);
  MatrixAttr matrixOf(FlatSymbolRefAttr symbol);
  gguf::WeightOp weightOp(FlatSymbolRefAttr symbol) { return weights.lookup<gguf::WeightOp>(symbol.getValue()); }
  Value slot(SlotKind kind, int64_t index = 0) {
    return SlotOp::create(b, loc, SlotType::get(b.getContext()), kind, index);
  }
  Value count(RowSet set) { return slot(SlotKind::counts, int64_t(set)); }
  Value map(RowSet set) { return slot(set == RowSet::tail ? SlotKind::tail_map : SlotKind::row_map); }
  RowSet setOf(Value v) {
    switch (gemma::getRowSet(v).value_or(gemma::RowSet::kBody)) {
    case gemma::RowSet::kBody: return RowSet::rows;
    case gemma::RowSet::kTail: return RowSet::tail;
    case gemma::RowSet::kLogits: return RowSet::logits;
    }
    return RowSet::rows;
  }
  void put(llvm::StringMap<Value> &operands, StringRef name, const ActivationBuffers &a) {
    operands[name] = a.f32;
    operands[(name + ".q").str()] = a.q;
    operands[(name + ".scale").str()] = a.scale;
    operands[(name + ".sums").str()] = a.sums;
  }
  FloatAttr f32(float v) { return b.getF32FloatAttr(v); }
  InputForms formsNeeded(Value x);
  std::string layerName(StringRef base, Operation *op) {
    auto layer = gemma::getLayer(op);
    return layer ? (base + "." + Twine(*layer)).str() : base.str();
  }
  void dispatch(Attribute spec, StringRef name, llvm::StringMap<Value> &operands, RowSet set, Operation *from, int64_t macs,
                ArrayRef<std::pair<std::string, std::string>> taps = {});

  gemma::ModelOp model;
  ModuleOp module;
  OpBuilder b;
  SymbolTable weights;
  int64_t maxRows, maxLogitRows;
  Location loc = UnknownLoc::get(b.getContext());
  bool int8 = false;
  gguf::ElementType kvElement;
  OpBuilder kernels{b.getContext()};
  unsigned kernelCount = 0;
  DenseMap<Value, ActivationBuffers> activations; ///< by gemma value
  DenseMap<Value, Value> buffers;                 ///< plain f32 results and streams
  DenseMap<Value, std::pair<Value, Value>> queries; ///< a layer's queries to (q, arrivals) buffers
  DenseMap<Value, Value> kvs;
  DenseMap<Value, Prologue> prologues;            ///< by the norm whose only reader is one linear
  DenseMap<Value, std::pair<Value, Value>> choices; ///< route's ids to (router_idx, router_w) buffers
  Value logitsBuffer, maximaBuffer, hiddenBuffer;
};

} // namespace g4::lower
