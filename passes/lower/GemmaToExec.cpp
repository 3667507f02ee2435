// From values to buffers. Contractions and attention become dispatches in the order of the model; everything
// between two of them is collected into a row chain when the first contraction asks for its input.
#include "dialects/exec/Signature.h"
#include "dialects/gemma/GemmaDialect.h"
#include "passes/lower/Passes.h"
#include "runtime/module/StepAbi.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace g4::exec;

namespace g4::lower {
#define GEN_PASS_DEF_LOWERGEMMATOEXECPASS
#include "passes/lower/Passes.h.inc"
namespace {

// Rows of a block of a linear's work items: they share one pass over the item's weights. With a prologue every
// thread computes it for the whole block in scratch, so the block is smaller.
constexpr int64_t kRowsPerItem = 32, kRowsPerItemWithPrologue = 16;
// Rows of a tile of routed experts: most tiles of a decode step have one, prefills fill them.
constexpr int64_t kExpertTileRows = 8;

struct ActivationBuffers {
  Value f32, q, scale, sums;
};

/// Widest divisor of `columns` that is a multiple of 32 and leaves about 16 items or more, 32 to 256 wide.
int64_t tileFor(int64_t columns) {
  int64_t best = 32, limit = std::clamp<int64_t>(columns / 16, 32, 256);
  for (int64_t tile = 32; tile <= limit; tile += 32)
    if (columns % tile == 0)
      best = tile;
  return columns % 32 ? 16 : best;
}

/// True for one layer's per-layer inputs: a slice of its group's, or all of them when it is alone in its group.
bool isPerLayerInput(Value v) { return v.getDefiningOp<gemma::SliceLayerOp>() || v.getDefiningOp<gemma::PerLayerInputsOp>(); }

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
  void dispatch(Attribute spec, StringRef name, llvm::StringMap<Value> &operands, RowSet set, int64_t rowsPerItem,
                int64_t itemsPerBlock, Operation *from, int64_t macs,
                ArrayRef<std::pair<std::string, std::string>> taps = {});

  gemma::ModelOp model;
  ModuleOp module;
  OpBuilder b;
  SymbolTable weights;
  int64_t maxRows, maxLogitRows;
  Location loc = UnknownLoc::get(b.getContext());
  bool int8 = false;
  Type kvElement;
  OpBuilder kernels{b.getContext()};
  unsigned kernelCount = 0;
  DenseMap<Value, ActivationBuffers> activations; ///< by gemma value
  DenseMap<Value, Value> buffers;                 ///< plain f32 results and streams
  DenseMap<Value, Value> kvs;
  DenseMap<Value, Prologue> prologues;            ///< by the norm whose only reader is one linear
  DenseMap<Value, std::pair<Value, Value>> choices; ///< route's ids to (router_idx, router_w) buffers
  Value logitsBuffer, hiddenBuffer;
};

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

MatrixAttr Lowering::matrixOf(gguf::PartAttr part, int64_t experts) {
  gguf::MatrixType type = weightOp(part.getWeight()).getMatrixType();
  return MatrixAttr::get(b.getContext(), type.getElement(), part.getRows() * experts, type.getColumns());
}
MatrixAttr Lowering::matrixOf(FlatSymbolRefAttr symbol) {
  gguf::MatrixType type = weightOp(symbol).getMatrixType();
  return MatrixAttr::get(b.getContext(), type.getElement(), type.getRows(), type.getColumns());
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
                        int64_t rowsPerItem, int64_t itemsPerBlock, Operation *from, int64_t macs,
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
  DispatchOp::create(b, from->getLoc(), symbol, reads, writes, set, rowsPerItem, itemsPerBlock, layer, macs, tapOperands,
                     b.getArrayAttr(tapNames));
}

// ---- row chains ------------------------------------------------------------------------------------------

bool Lowering::isPleLinear(gemma::LinearOp op) {
  // Gate: its result meets a layer's per-layer inputs in a geglu. Projection: its input is such a geglu.
  auto isPleGeglu = [](Operation *o) {
    auto g = dyn_cast_or_null<gemma::GegluOp>(o);
    return g && isPerLayerInput(g.getUp());
  };
  if (isPleGeglu(op.getX().getDefiningOp()))
    return true;
  return op.getNumResults() == 1 && llvm::any_of(op.getResult(0).getUsers(), isPleGeglu);
}

Lowering::Chain Lowering::collect(Value h) {
  Chain chain;
  chain.end = h.getDefiningOp();
  for (Operation *user : h.getUsers()) {
    if (auto norm = dyn_cast<gemma::RmsNormOp>(user); norm && norm.getGroups() == 1)
      chain.norms.push_back(norm);
    else if (auto route = dyn_cast<gemma::RouteOp>(user))
      chain.route = route;
    else if (isa<gemma::PerLayerInputsOp, gemma::LogitsOp>(user) ||
             (isa<gemma::LinearOp>(user) && !isPleLinear(cast<gemma::LinearOp>(user))))
      chain.raw = true;
  }
  llvm::sort(chain.norms, [](gemma::RmsNormOp x, gemma::RmsNormOp y) { return x->isBeforeInBlock(y); });
  Value at = h;
  if (auto scale = at.getDefiningOp<gemma::ScaleOp>()) {
    chain.scale = scale.getByAttr();
    at = scale.getX();
  }
  auto addOf = [](Value v) { return v.getDefiningOp<gemma::AddOp>(); };
  auto normOf = [](Value v) { return v.getDefiningOp<gemma::RmsNormOp>(); };
  if (auto add = addOf(at); add && normOf(add.getB())) {
    auto y = normOf(add.getB()).getX().getDefiningOp<gemma::LinearOp>();
    if (y && isPleLinear(y)) {
      chain.pleProjection = y;
      chain.pleNorm = normOf(add.getB()).getGainAttr();
      auto geglu = y.getX().getDefiningOp<gemma::GegluOp>();
      chain.pleGate = geglu.getGate().getDefiningOp<gemma::LinearOp>();
      chain.pleInput = geglu.getUp();
      at = add.getA();
    }
  }
  if (auto add = addOf(at); add && normOf(add.getB()) && !buffers.count(at)) {
    gemma::RmsNormOp post = normOf(add.getB());
    chain.postNorm = post.getGainAttr();
    chain.y = post.getX();
    if (auto both = addOf(post.getX())) {
      gemma::RmsNormOp dense = normOf(both.getA()), experts = normOf(both.getB());
      chain.y = dense.getX();
      chain.denseNorm = dense.getGainAttr();
      chain.expertsNorm = experts.getGainAttr();
      chain.experts = experts.getX().getDefiningOp<gemma::ExpertsOp>();
    }
    at = add.getA();
  }
  if (auto embed = at.getDefiningOp<gemma::EmbedOp>(); embed && !buffers.count(at))
    chain.embed = embed;
  else if (auto select = at.getDefiningOp<gemma::SelectRowsOp>(); select && !buffers.count(at)) {
    chain.gather = select;
    chain.base = select.getX();
  } else
    chain.base = at;
  return chain;
}

bool Lowering::canBePrologue(const Chain &chain) {
  // Either an add of a normed result, or a gather of the rows that go on, and nothing else.
  if (chain.embed || chain.pleGate || chain.scale || chain.route || chain.raw || chain.experts ||
      bool(chain.gather) == bool(chain.y) || chain.norms.size() != 1)
    return false;
  Value norm = gemma::RmsNormOp(chain.norms.front()).getResult();
  if (!norm.hasOneUse())
    return false;
  auto linear = dyn_cast<gemma::LinearOp>(*norm.getUsers().begin());
  if (linear && chain.gather) // the queries of the layer where pruned rows stop: its keys and values need all rows
    return linear.getNumResults() == 1 && isa<gemma::RmsNormOp>(*linear.getResult(0).getUsers().begin());
  return linear && llvm::all_of(linear.getResults(), [](Value r) {
           return r.hasOneUse() && isa<gemma::GegluOp>(*r.getUsers().begin());
         });
}

LogicalResult Lowering::needStream(Value h) {
  if (buffers.count(h))
    return success();
  if (h.getDefiningOp<gemma::RmsNormOp>()) // the final norm: its f32 form is the stream that logit rows are gathered from
    return needActivation(h);
  return emitChain(h, collect(h));
}

LogicalResult Lowering::emitChain(Value h, Chain chain) {
  if (chain.base && chain.base != h && failed(needStream(chain.base)))
    return failure();
  if (chain.base == h)
    return emitError(h.getLoc()) << "no row chain computes " << h;
  RowSet set = setOf(h);
  llvm::StringMap<Value> operands;
  MLIRContext *context = b.getContext();
  SmallVector<std::pair<std::string, std::string>> taps;
  auto vector = [&](FlatSymbolRefAttr symbol) { return weight(Storage::vector, symbol); };
  int64_t hidden = gemma::getColumns(h), macs = 0;

  operands["count"] = count(set);
  Source source = chain.embed ? Source::embed : chain.gather ? Source::gather : Source::buffer;
  MatrixAttr embed;
  FloatAttr embedScale;
  if (chain.embed) {
    operands["map"] = map(set);
    operands["tokens"] = slot(SlotKind::tokens);
    operands["embed"] = weight(Storage::packed, chain.embed.getTableAttr());
    embed = matrixOf(chain.embed.getTableAttr());
    embedScale = chain.embed.getScaleAttr();
  } else {
    operands["stream"] = buffers.lookup(chain.base);
    if (chain.gather)
      operands["map"] = slot(set == RowSet::logits ? SlotKind::logit_map : SlotKind::tail_map);
  }
  Add add = chain.experts ? Add::experts : chain.y ? Add::normed : Add::none;
  int64_t used = 0;
  if (chain.y) {
    operands["y"] = buffers.lookup(chain.y);
    operands["post_norm"] = vector(chain.postNorm);
  }
  if (chain.experts) {
    used = gemma::getColumns(chain.experts.getWeights());
    operands["dense_norm"] = vector(chain.denseNorm);
    operands["experts_norm"] = vector(chain.expertsNorm);
    operands["experts"] = buffers.lookup(chain.experts.getResult());
  }
  PleAttr ple;
  if (chain.pleGate) {
    auto gate = cast<gguf::PartAttr>(chain.pleGate.getParts()[0]), projection = cast<gguf::PartAttr>(chain.pleProjection.getParts()[0]);
    Value all = chain.pleInput;
    int64_t first = 0;
    if (auto slice = all.getDefiningOp<gemma::SliceLayerOp>()) {
      first = (gemma::getLayer(slice).value_or(0) - slice.getFirstLayer()) * slice.getWidth();
      all = slice.getInputs();
    }
    ple = PleAttr::get(context, matrixOf(gate), matrixOf(projection), gemma::getColumns(all));
    Value inputs = buffers.lookup(all);
    operands["ple"] = ColumnsOp::create(b, loc, inputs.getType(), inputs, first);
    operands["ple_gate"] = weight(Storage::packed, gate);
    operands["ple_projection"] = weight(Storage::packed, projection);
    operands["ple_norm"] = vector(chain.pleNorm);
    macs += ple.getGate().getRows() * ple.getGate().getColumns() + ple.getProjection().getRows() * ple.getProjection().getColumns();
  }
  if (chain.scale)
    operands["scale"] = vector(chain.scale);
  // Stored when a later chain starts from it; a gather that only feeds the logits does not.
  bool store = llvm::any_of(h.getUsers(), [](Operation *u) { return isa<gemma::AddOp, gemma::SelectRowsOp>(u); }) ||
               gemma::getTapName(chain.end);
  if (store) {
    operands["stream_out"] = buffers[h] = buffer(layerName("h", chain.end), set, hidden, b.getF32Type());
    if (auto tap = gemma::getTapName(chain.end))
      taps.push_back({"stream_out", *tap});
  }

  bool prologue = canBePrologue(chain);
  SmallVector<Attribute> norms;
  auto addNorm = [&](Value result, FlatSymbolRefAttr gain, bool normalize, Operation *from) {
    InputForms forms = formsNeeded(result);
    std::string index = std::to_string(norms.size());
    if (gain)
      operands["gain" + index] = vector(gain);
    if (!prologue) {
      ActivationBuffers a = activation(layerName(normalize ? "x" : "raw", from), set, hidden, forms);
      put(operands, "x" + index, a);
      activations[result] = a;
      if (normalize && forms.f32)
        buffers[result] = a.f32;
      if (auto tap = gemma::getTapName(from); tap && normalize && forms.f32)
        taps.push_back({"x" + index, *tap});
    }
    norms.push_back(NormAttr::get(context, normalize, bool(gain), FormsAttr::get(context, forms.f32, forms.q8)));
  };
  for (gemma::RmsNormOp norm : chain.norms)
    addNorm(norm.getResult(), norm.getGainAttr(), true, norm);
  if (chain.raw)
    addNorm(h, {}, false, chain.end);

  RouteAttr route;
  if (gemma::RouteOp r = chain.route) {
    MatrixAttr router = matrixOf(r.getRouterAttr());
    route = RouteAttr::get(context, router, r.getUsed());
    macs += router.getRows() * router.getColumns();
    operands["router"] = weight(Storage::packed, r.getRouterAttr());
    operands["router_scale"] = vector(r.getScaleAttr());
    operands["expert_scale"] = vector(r.getExpertScaleAttr());
    operands["route_map"] = map(set);
    operands["forced_flag"] = slot(SlotKind::counts, module::kCountForced);
    operands["forced"] = slot(SlotKind::forced_experts, gemma::getLayer(r).value_or(0) * maxRows * int64_t(r.getUsed()));
    operands["router_prob"] = buffer(layerName("router_prob", r), set, router.getRows(), b.getF32Type());
    Value ids = operands["router_idx"] = buffer(layerName("router_idx", r), set, r.getUsed(), b.getI32Type());
    Value w = operands["router_w"] = buffer(layerName("router_w", r), set, r.getUsed(), b.getF32Type());
    choices[r.getIds()] = {ids, w};
    std::string layer = std::to_string(gemma::getLayer(r).value_or(0));
    for (const char *name : {"router_prob", "router_idx", "router_w"})
      taps.push_back({name, name + layer});
  }
  auto row = RowAttr::get(context, hidden, int8, f32(model.getEps().convertToFloat()), source, add, bool(chain.scale),
                          store, embed, embedScale, ple, route, used, b.getArrayAttr(norms));
  if (prologue) {
    prologues[chain.norms.front().getResult()] = {row, std::move(operands), chain, macs};
    return success();
  }
  dispatch(RowKernelAttr::get(context, row), "row", operands, set, kRowChainRows, 1, chain.end, macs, taps);
  return success();
}

LogicalResult Lowering::needActivation(Value x) {
  if (activations.count(x) || prologues.count(x))
    return success();
  if (auto norm = x.getDefiningOp<gemma::RmsNormOp>(); norm && norm.getGroups() == 1) {
    if (!buffers.count(norm.getX()))
      return needStream(norm.getX());
    return emitError(x.getLoc()) << "a norm was not part of its row chain";
  }
  return needStream(x); // the stream itself: a raw form of the chain
}

// ---- contractions ----------------------------------------------------------------------------------------

LogicalResult Lowering::lowerLinear(gemma::LinearOp op) {
  if (isPleLinear(op))
    return success(); // part of a row chain
  if (failed(needActivation(op.getX())))
    return failure();
  bool heads = llvm::any_of(op.getResults(), [](Value r) {
    return llvm::any_of(r.getUsers(), [](Operation *u) {
      auto norm = dyn_cast<gemma::RmsNormOp>(u);
      return norm && llvm::any_of(norm->getUsers(), [](Operation *v) { return isa<gemma::RopeOp, gemma::KvAppendOp>(v); });
    });
  });
  if (heads)
    return lowerHeads(op);

  MLIRContext *context = b.getContext();
  RowSet set = setOf(op.getX());
  llvm::StringMap<Value> operands;
  RowAttr row;
  int64_t macs = 0, rowsPerItem = kRowsPerItem;
  SmallVector<std::pair<std::string, std::string>> taps;
  if (auto it = prologues.find(op.getX()); it != prologues.end()) {
    row = it->second.row;
    operands = it->second.operands;
    macs = it->second.macs;
    rowsPerItem = kRowsPerItemWithPrologue;
    if (auto tap = gemma::getTapName(it->second.chain.end))
      taps.push_back({"stream_out", *tap});
  } else {
    put(operands, "x", activations.lookup(op.getX()));
  }
  operands["count"] = count(set);
  SmallVector<MatrixAttr> parts;
  for (auto [i, part] : llvm::enumerate(op.getParts().getAsRange<gguf::PartAttr>())) {
    parts.push_back(matrixOf(part));
    operands["w" + std::to_string(i)] = weight(Storage::packed, part);
    macs += parts.back().getRows() * parts.back().getColumns();
  }
  int64_t columns = parts[0].getColumns(), outputs = parts[0].getRows(), tile = tileFor(outputs);
  auto geglu = dyn_cast<gemma::GegluOp>(*op.getResult(0).getUsers().begin());
  if (geglu && op.getNumResults() == 2 && geglu.getUp() == op.getResult(1)) {
    InputForms forms = formsNeeded(geglu.getResult());
    ActivationBuffers out = activation(layerName("ff", op), set, outputs, forms);
    put(operands, "out", out);
    activations[geglu.getResult()] = out;
    auto spec = LinearAttr::get(context, columns, int8, parts, Epilogue::geglu, tile, rowsPerItem, row,
                                FormsAttr::get(context, forms.f32, forms.q8), {}, {}, {});
    dispatch(spec, "linear_geglu", operands, set, rowsPerItem, outputs / tile, op, macs, taps);
    return success();
  }
  if (op.getNumResults() != 1)
    return op.emitOpError("has ") << op.getNumResults() << " results that no epilogue takes together";
  Value out = buffer(layerName("y", op), set, outputs, b.getF32Type());
  operands["out"] = out;
  buffers[op.getResult(0)] = out;
  if (auto tap = gemma::getTapName(op))
    taps.push_back({"out", *tap});
  auto spec = LinearAttr::get(context, columns, int8, parts, Epilogue::store, tile, rowsPerItem, row, {}, {}, {}, {});
  dispatch(spec, "linear", operands, set, rowsPerItem, (outputs + tile - 1) / tile, op, macs, taps);
  return success();
}

LogicalResult Lowering::lowerHeads(gemma::LinearOp op) {
  MLIRContext *context = b.getContext();
  RowSet set = setOf(op.getX());
  llvm::StringMap<Value> operands;
  RowAttr row;
  int64_t macs = 0, rowsPerItem = kRowsPerItem;
  if (auto it = prologues.find(op.getX()); it != prologues.end()) {
    row = it->second.row;
    operands = it->second.operands;
    macs = it->second.macs;
    rowsPerItem = kRowsPerItemWithPrologue;
  } else {
    put(operands, "x", activations.lookup(op.getX()));
  }
  operands["count"] = count(set);
  if (!row) // a gathering prologue reads the same map
    operands["map"] = map(set);
  gemma::KvAppendOp append;
  gemma::RopeOp queryRope;
  bool query = false, key = false, value = false;
  int64_t heads = 1;
  for (Value result : op.getResults()) {
    bool known = false;
    for (Operation *user : result.getUsers()) {
      auto norm = dyn_cast<gemma::RmsNormOp>(user);
      if (!norm)
        continue;
      for (Operation *next : norm->getUsers()) {
        if (auto rope = dyn_cast<gemma::RopeOp>(next)) {
          for (Operation *last : rope->getUsers()) {
            if (auto attention = dyn_cast<gemma::AttentionOp>(last)) {
              query = known = true;
              queryRope = rope;
              heads = rope.getHeads();
              operands["q_norm"] = weight(Storage::vector, norm.getGainAttr());
            } else if (auto a = dyn_cast<gemma::KvAppendOp>(last)) {
              key = known = true;
              append = a;
              operands["k_norm"] = weight(Storage::vector, norm.getGainAttr());
            }
          }
        } else if (auto a = dyn_cast<gemma::KvAppendOp>(next)) {
          append = a;
          // The value of its own part, or (k_eq_v) of the key's, which is then no part of its own.
          if (!key || result != a.getK().getDefiningOp<gemma::RopeOp>().getX().getDefiningOp<gemma::RmsNormOp>().getX())
            value = true;
          known = true;
        }
      }
    }
    if (!known)
      return op.emitOpError("projects a result that is neither query, key nor value");
  }
  // A key's two users may come in either order: settle k_eq_v from the append itself.
  if (append && key) {
    Value k = append.getK().getDefiningOp<gemma::RopeOp>().getX().getDefiningOp<gemma::RmsNormOp>().getX();
    Value v = append.getV().getDefiningOp<gemma::RmsNormOp>().getX();
    value = k != v && v.getDefiningOp() == op;
    if (k != v && !value)
      return op.emitOpError("projects a layer's keys but not its values");
  }
  if (append && !key)
    return op.emitOpError("projects a layer's values but not its keys: run gemma-fuse-projections first");
  gemma::LayerAttr facts = model.getLayerFact(gemma::getLayer(op).value_or(0));
  bool sliding = facts.isSliding();
  int64_t dim = facts.getHeadDim();
  operands["rope"] = slot(sliding ? SlotKind::rope_sliding : SlotKind::rope_global);
  if (query) {
    Value q = buffer(layerName("q", op), set, heads * dim, b.getF32Type());
    operands["q"] = q;
    buffers[queryRope.getResult()] = q;
  }
  if (append) {
    auto type = append.getKv().getType();
    Value kv = KvOp::create(b, append.getLoc(), KvType::get(b.getContext()), gemma::getLayer(append).value_or(0), type.getWindow(), type.getHeads(),
                            type.getDim(), kvElement);
    kvs[append.getKv()] = kv;
    operands["kv"] = kv;
    operands["positions"] = slot(SlotKind::positions);
    operands["sequences"] = slot(SlotKind::sequences);
    operands["blocks"] = slot(sliding ? SlotKind::blocks_sliding : SlotKind::blocks_global);
    operands["blocks_stride"] = slot(SlotKind::counts, sliding ? module::kCountBlocksSliding : module::kCountBlocksGlobal);
  }
  SmallVector<MatrixAttr> parts;
  int64_t items = 0;
  for (auto [i, part] : llvm::enumerate(op.getParts().getAsRange<gguf::PartAttr>())) {
    parts.push_back(matrixOf(part));
    operands["w" + std::to_string(i)] = weight(Storage::packed, part);
    macs += parts.back().getRows() * parts.back().getColumns();
    items += parts.back().getRows() / dim;
  }
  auto attr = HeadsAttr::get(context, dim, heads, facts.getKvHeads(), query, key, value, append ? kvElement : Type(),
                             f32(model.getEps().convertToFloat()));
  auto spec = LinearAttr::get(context, parts[0].getColumns(), int8, parts, Epilogue::heads, dim, rowsPerItem, row, {},
                              attr, {}, {});
  dispatch(spec, "linear_heads", operands, set, rowsPerItem, items, op, macs);
  return success();
}

LogicalResult Lowering::lowerAttention(gemma::AttentionOp op) {
  RowSet set = setOf(op.getQ());
  auto type = op.getKv().getType();
  bool sliding = type.getWindow() > 0;
  InputForms forms = formsNeeded(op.getResult());
  ActivationBuffers out = activation(layerName("attention", op), set, gemma::getColumns(op.getResult()), forms);
  activations[op.getResult()] = out;
  llvm::StringMap<Value> operands;
  operands["count"] = count(set);
  operands["map"] = map(set);
  operands["positions"] = slot(SlotKind::positions);
  operands["sequences"] = slot(SlotKind::sequences);
  operands["blocks"] = slot(sliding ? SlotKind::blocks_sliding : SlotKind::blocks_global);
  operands["blocks_stride"] = slot(SlotKind::counts, sliding ? module::kCountBlocksSliding : module::kCountBlocksGlobal);
  operands["q"] = buffers.lookup(op.getQ());
  operands["kv"] = kvs.lookup(op.getKv());
  put(operands, "out", out);
  auto spec = AttentionAttr::get(b.getContext(), op.getHeads(), type.getHeads(), type.getDim(), type.getWindow(), kvElement,
                                 op.getScaleAttr(), FormsAttr::get(b.getContext(), forms.f32, forms.q8));
  dispatch(spec, "attention", operands, set, 1, type.getHeads(), op, 0);
  return success();
}

LogicalResult Lowering::lowerPerLayerInputs(gemma::PerLayerInputsOp op) {
  if (failed(needActivation(op.getE())))
    return failure();
  RowSet set = setOf(op.getResult());
  MLIRContext *context = b.getContext();
  llvm::StringMap<Value> operands;
  put(operands, "x", activations.lookup(op.getE()));
  operands["count"] = count(set);
  operands["map"] = map(set);
  operands["tokens"] = slot(SlotKind::tokens);
  operands["w0"] = weight(Storage::packed, op.getProjection());
  operands["table"] = weight(Storage::table, op.getTableAttr());
  operands["norm"] = weight(Storage::vector, op.getNormAttr());
  MatrixAttr projection = matrixOf(op.getProjection());
  Value out = buffer(("per_layer_inputs." + Twine(op.getFirstLayer())).str(), set, projection.getRows(), b.getF32Type());
  operands["out"] = out;
  buffers[op.getResult()] = out;
  auto epilogue = PerLayerAttr::get(context, op.getWidth(), op.getFirstLayer(), matrixOf(op.getTableAttr()),
                                    op.getProjectionScaleAttr(), op.getTableScaleAttr(), op.getCombineScaleAttr(), op.getEpsAttr());
  auto spec = LinearAttr::get(context, projection.getColumns(), int8, {projection}, Epilogue::per_layer, op.getWidth(),
                              kRowsPerItem, {}, {}, {}, epilogue, {});
  dispatch(spec, "linear_per_layer", operands, set, kRowsPerItem, op.getLayerCount(), op,
           projection.getRows() * projection.getColumns(),
           {{"out", "per_layer_inputs" + std::to_string(op.getFirstLayer())}});
  return success();
}

LogicalResult Lowering::lowerExperts(gemma::ExpertsOp op) {
  if (failed(needActivation(op.getX())))
    return failure();
  MLIRContext *context = b.getContext();
  RowSet set = setOf(op.getX());
  auto [ids, w] = choices.lookup(op.getIds());
  if (!ids)
    return op.emitOpError("has expert ids that no row chain chose");
  int64_t experts = op.getExperts(), used = gemma::getColumns(op.getWeights());
  Value order = buffer(layerName("order", op), set, 1, b.getI32Type(), used);
  Value tiles = buffer(layerName("tiles", op), set, 1, b.getI32Type(), 4 * used);
  llvm::StringMap<Value> sort;
  sort["count"] = count(set);
  sort["router_idx"] = ids;
  sort["order"] = order;
  sort["tiles"] = tiles;
  dispatch(SortExpertsAttr::get(context, experts, used, kExpertTileRows), "sort_experts", sort, RowSet::single, 1, 1, op, 0);

  MatrixAttr gate = matrixOf(op.getGate(), experts), up = matrixOf(op.getUp(), experts), down = matrixOf(op.getDown(), experts);
  InputForms forms = inputForms({down}, int8);
  int64_t width = gate.getRows() / experts, hidden = down.getRows() / experts, tile = tileFor(width);
  ActivationBuffers ff = activation(layerName("expert_ff", op), set, width, forms, used);
  llvm::StringMap<Value> first;
  first["order"] = order;
  first["tiles"] = tiles;
  put(first, "x", activations.lookup(op.getX()));
  first["w0"] = weight(Storage::packed, op.getGate(), experts);
  first["w1"] = weight(Storage::packed, op.getUp(), experts);
  put(first, "out", ff);
  dispatch(ExpertsAttr::get(context, experts, used, kExpertTileRows, int8, {gate, up}, tile,
                            FormsAttr::get(context, forms.f32, forms.q8)),
           "experts_up", first, set, 1, used * (width / tile), op, 2 * used * width * gate.getColumns());

  tile = tileFor(hidden);
  Value out = buffer(layerName("experts", op), set, hidden, b.getF32Type(), used);
  buffers[op.getResult()] = out;
  llvm::StringMap<Value> second;
  second["order"] = order;
  second["tiles"] = tiles;
  put(second, "x", ff);
  second["w0"] = weight(Storage::packed, op.getDown(), experts);
  second["router_w"] = w;
  second["out"] = out;
  dispatch(ExpertsAttr::get(context, experts, used, kExpertTileRows, int8, {down}, tile, {}), "experts_down", second, set, 1,
           used * (hidden / tile), op, used * hidden * down.getColumns());
  return success();
}

LogicalResult Lowering::lowerLogits(gemma::LogitsOp op) {
  // The input is a gather of the normed hidden state: a raw form of a chain that only gathers.
  if (failed(needActivation(op.getH())))
    return failure();
  llvm::StringMap<Value> operands;
  put(operands, "x", activations.lookup(op.getH()));
  MatrixAttr head = matrixOf(op.getHeadAttr());
  operands["count"] = count(RowSet::logits);
  operands["w0"] = weight(Storage::packed, op.getHeadAttr());
  int64_t padded = (head.getRows() + 15) / 16 * 16, tile = tileFor(padded);
  logitsBuffer = operands["out"] = buffer("logits", RowSet::logits, padded, b.getF32Type());
  FloatAttr softcap = op.getSoftcap().isZero() ? FloatAttr() : op.getSoftcapAttr();
  auto spec = LinearAttr::get(b.getContext(), head.getColumns(), int8, {head}, Epilogue::softcap, tile, kRowsPerItem, {}, {}, {}, {}, softcap);
  dispatch(spec, "linear_logits", operands, RowSet::logits, kRowsPerItem, padded / tile, op, head.getRows() * head.getColumns());
  return success();
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
        ReturnOp::create(b, loc, ValueRange{logitsBuffer, hiddenBuffer}, b.getStrArrayAttr({"logits", "hidden"}));
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
  switch (*model.getKvType()) {
  case gemma::KvElement::kF32: kvElement = b.getF32Type(); break;
  case gemma::KvElement::kF16: kvElement = b.getF16Type(); break;
  case gemma::KvElement::kBF16: kvElement = b.getBF16Type(); break;
  }
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
