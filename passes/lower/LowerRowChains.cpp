// Row chains: what lies between two contractions, as one dispatch or as the prologue of the second.
#include "passes/lower/GemmaToExec.h"

namespace g4::lower {

/// True for one layer's per-layer inputs: a slice of its group's, or all of them when it is alone in its group.
static bool isPerLayerInput(Value v) { return v.getDefiningOp<gemma::SliceLayerOp>() || v.getDefiningOp<gemma::PerLayerInputsOp>(); }

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
  dispatch(RowKernelAttr::get(context, row), "row", operands, set, chain.end, macs, taps);
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

} // namespace g4::lower
