// Contractions and attention: one dispatch each, with the row chain before them and the epilogue after them.
#include "passes/lower/GemmaToExec.h"

namespace g4::lower {
namespace {

// Rows of a block of a linear's work items: they share one pass over the item's weights. With a prologue every
// thread computes it for the whole block in scratch, so the block is smaller.
constexpr int64_t kRowsPerItem = 32, kRowsPerItemWithPrologue = 16;
// Rows of a tile of routed experts. Most tiles of a decode step have one; a prefill of 512 rows has 32 for each of 128 experts.
constexpr int64_t kExpertTileRows = kRowsPerItem;

/// Widest divisor of `columns` that is a multiple of 32 and leaves about 16 items or more, 32 to 256 wide.
int64_t tileFor(int64_t columns) {
  int64_t best = 32, limit = std::clamp<int64_t>(columns / 16, 32, 256);
  for (int64_t tile = 32; tile <= limit; tile += 32)
    if (columns % tile == 0)
      best = tile;
  return columns % 32 ? 16 : best;
}

} // namespace

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
    putWeight(operands, i, part);
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
    dispatch(spec, "linear_geglu", operands, set, op, macs, taps);
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
  dispatch(spec, "linear", operands, set, op, macs, taps);
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
    Value arrivals = buffer(layerName("arrivals", op), set, heads, b.getI32Type());
    operands["q"] = q;
    operands["arrivals"] = arrivals;
    queries[queryRope.getResult()] = {q, arrivals};
  }
  if (append) {
    auto type = append.getKv().getType();
    Value kv = KvOp::create(b, append.getLoc(), KvType::get(b.getContext()), gemma::getLayer(append).value_or(0), type.getWindow(), type.getHeads(),
                            type.getDim(), ElementAttr::get(context, kvElement));
    kvs[append.getKv()] = kv;
    operands["kv"] = operands[kKvScales] = kv;
    operands["positions"] = slot(SlotKind::positions);
    operands["sequences"] = slot(SlotKind::sequences);
    operands["blocks"] = slot(sliding ? SlotKind::blocks_sliding : SlotKind::blocks_global);
    operands["blocks_stride"] = slot(SlotKind::counts, sliding ? module::kCountBlocksSliding : module::kCountBlocksGlobal);
  }
  SmallVector<MatrixAttr> parts;
  for (auto [i, part] : llvm::enumerate(op.getParts().getAsRange<gguf::PartAttr>())) {
    parts.push_back(matrixOf(part));
    putWeight(operands, i, part);
    macs += parts.back().getRows() * parts.back().getColumns();
  }
  auto attr = HeadsAttr::get(context, dim, heads, facts.getKvHeads(), query, key, value, kvElement,
                             f32(model.getEps().convertToFloat()));
  auto spec = LinearAttr::get(context, parts[0].getColumns(), int8, parts, Epilogue::heads, dim, rowsPerItem, row, {},
                              attr, {}, {});
  dispatch(spec, "linear_heads", operands, set, op, macs);
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
  auto [q, arrivals] = queries.lookup(op.getQ());
  operands["q"] = q;
  operands["arrivals"] = arrivals;
  operands["kv"] = operands[kKvScales] = kvs.lookup(op.getKv());
  put(operands, "out", out);
  auto spec = AttentionAttr::get(b.getContext(), op.getHeads(), type.getHeads(), type.getDim(), type.getWindow(), kvElement,
                                 op.getScaleAttr(), FormsAttr::get(b.getContext(), forms.f32, forms.q8));
  int64_t parts = kSplitRows * op.getHeads() * segmentsOf(spec);
  operands["parts"] = buffer(layerName("parts", op), RowSet::single, partColumns(spec), b.getF32Type(), parts);
  dispatch(spec, "attention", operands, set, op, 0);
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
  putWeight(operands, 0, op.getProjection());
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
  dispatch(spec, "linear_per_layer", operands, set, op,
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
  dispatch(SortExpertsAttr::get(context, experts, used, kExpertTileRows), "sort_experts", sort, RowSet::single, op, 0);

  MatrixAttr gate = matrixOf(op.getGate(), experts), up = matrixOf(op.getUp(), experts), down = matrixOf(op.getDown(), experts);
  InputForms forms = inputForms({down}, int8);
  int64_t width = gate.getRows() / experts, hidden = down.getRows() / experts, tile = tileFor(width);
  ActivationBuffers ff = activation(layerName("expert_ff", op), set, width, forms, used);
  llvm::StringMap<Value> first;
  first["count"] = sort["count"];
  first["order"] = order;
  first["tiles"] = tiles;
  put(first, "x", activations.lookup(op.getX()));
  putWeight(first, 0, op.getGate(), experts);
  putWeight(first, 1, op.getUp(), experts);
  put(first, "out", ff);
  dispatch(ExpertsAttr::get(context, experts, used, kExpertTileRows, int8, {gate, up}, tile,
                            FormsAttr::get(context, forms.f32, forms.q8)),
           "experts_up", first, set, op, 2 * used * width * gate.getColumns());

  tile = tileFor(hidden);
  Value out = buffer(layerName("experts", op), set, hidden, b.getF32Type(), used);
  buffers[op.getResult()] = out;
  llvm::StringMap<Value> second;
  second["count"] = sort["count"];
  second["order"] = order;
  second["tiles"] = tiles;
  put(second, "x", ff);
  putWeight(second, 0, op.getDown(), experts);
  second["router_w"] = w;
  second["out"] = out;
  dispatch(ExpertsAttr::get(context, experts, used, kExpertTileRows, int8, {down}, tile, {}), "experts_down", second, set, op,
           used * hidden * down.getColumns());
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
  putWeight(operands, 0, gguf::PartAttr::get(b.getContext(), op.getHeadAttr(), 0, head.getRows(), 0));
  int64_t padded = (head.getRows() + 15) / 16 * 16, tile = tileFor(padded);
  logitsBuffer = operands["out"] = buffer("logits", RowSet::logits, padded, b.getF32Type());
  maximaBuffer = operands["maxima"] = buffer("logit_maxima", RowSet::logits, padded / tile, b.getF32Type());
  FloatAttr softcap = op.getSoftcap().isZero() ? FloatAttr() : op.getSoftcapAttr();
  auto spec = LinearAttr::get(b.getContext(), head.getColumns(), int8, {head}, Epilogue::logits, tile, kRowsPerItem, {}, {}, {}, {}, softcap);
  dispatch(spec, "linear_logits", operands, RowSet::logits, op, head.getRows() * head.getColumns());
  return success();
}

} // namespace g4::lower
