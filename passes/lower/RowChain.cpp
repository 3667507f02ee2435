// The row chain: everything that happens to one row between two contractions. See #exec.row.
#include "passes/lower/TileBuilder.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {

RowChain::RowChain(TileBuilder &t, RowAttr spec)
    : t(t), spec(spec), int8(spec.getInt8()), eps(spec.getEps().getValueAsDouble()) {
  int64_t hidden = spec.getHidden();
  stream = t.scratch({kRowChainRows, hidden});
  if (spec.getAdd() == Add::experts || spec.getPle() || spec.getRoute())
    other = t.scratch({kRowChainRows, hidden});
  if (spec.getPle() || spec.getRoute())
    sums = t.scratch({kRowChainRows, 16});
  if (spec.getSource() == Source::embed)
    block = t.scratch({32, module::kLanes});
  if (PleAttr ple = spec.getPle()) {
    pleIn = t.scratchActivation(kRowChainRows, hidden, inputForms({ple.getGate()}, int8));
    pleOut = t.scratchActivation(kRowChainRows, ple.getGate().getRows(), inputForms({ple.getProjection()}, int8));
    block = t.scratch({kRowChainRows, ple.getGate().getRows()});
  }
  if (RouteAttr r = spec.getRoute()) {
    int64_t padded = (r.getRouter().getRows() + 15) / 16 * 16;
    logits = t.scratch({1, padded});
    chosen = t.scratch({1, padded});
  }
}

Value RowChain::rmsOf(Value rows, Value m, int64_t n) {
  return t.lane(t.rmsFactor(n, eps, [&](Value k) { return t.loadStrip(rows, {m, k}); }));
}

void RowChain::source(Value row, Value m) {
  Value n = t.index(spec.getHidden());
  if (spec.getSource() == Source::embed) {
    // The table is the packed head: decode the token's group of sixteen rows block by block, keep its lane.
    Value token = t.loadIndex(t.arg("tokens"), {t.loadIndex(t.arg("map"), {row})});
    Value group = t.div(token, t.index(module::kLanes)), lane = t.rem(token, t.index(module::kLanes));
    Value scale = t.f32(spec.getEmbedScale().getValueAsDouble());
    auto type = tile::BlockType::get(t.b.getContext(), spec.getEmbed().getElement());
    t.forEach(t.index(0), t.index(spec.getHidden() / 32), 1, [&](Value k) {
      Value weights = tile::LoadQuantOp::create(t.b, t.loc, type, t.arg("embed"), group, k, spec.getHidden());
      tile::DequantOp::create(t.b, t.loc, weights, block);
      tile::BarrierOp::create(t.b, t.loc);
      t.forEach(t.index(0), t.index(32), 1, [&](Value c) {
        Value v = t.mulf(t.load(block, {c, lane}), scale);
        t.store(v, stream, {m, t.add(t.mul(k, t.index(32)), c)});
      });
    });
    return;
  }
  Value from = row;
  if (spec.getSource() == Source::gather)
    from = t.loadIndex(t.arg("map"), {row});
  t.forEach(t.index(0), n, 16, [&](Value k) {
    t.storeStrip(t.loadStrip(t.arg("stream"), {from, k}), stream, {m, k});
  });
}

void RowChain::addNormed(Value row, Value m) {
  Value y = t.arg("y"), gain = t.arg("post_norm");
  Value f = rmsOf(y, row, spec.getHidden());
  t.forEach(t.index(0), t.index(spec.getHidden()), 16, [&](Value k) {
    Value v = t.mulf(t.mulf(t.loadStrip(y, {row, k}), f), t.loadStrip(gain, {k}));
    t.storeStrip(t.addf(t.loadStrip(stream, {m, k}), v), stream, {m, k});
  });
}

void RowChain::addExperts(Value row, Value m) {
  int64_t hidden = spec.getHidden();
  Value experts = t.arg("experts"), dense = t.arg("y");
  // The chosen experts' results in the order of falling probability, whatever order they were computed in.
  t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
    Value sum = t.splat(0);
    for (int64_t u = 0; u < spec.getExpertsUsed(); ++u)
      sum = t.addf(sum, t.loadStrip(experts, {row, t.add(k, t.index(u * hidden))}));
    t.storeStrip(sum, other, {m, k});
  });
  Value fDense = rmsOf(dense, row, hidden), fExperts = rmsOf(other, m, hidden);
  t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
    Value d = t.mulf(t.mulf(t.loadStrip(dense, {row, k}), fDense), t.loadStrip(t.arg("dense_norm"), {k}));
    Value e = t.mulf(t.mulf(t.loadStrip(other, {m, k}), fExperts), t.loadStrip(t.arg("experts_norm"), {k}));
    t.storeStrip(t.addf(d, e), other, {m, k});
  });
  Value f = rmsOf(other, m, hidden);
  t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
    Value v = t.mulf(t.mulf(t.loadStrip(other, {m, k}), f), t.loadStrip(t.arg("post_norm"), {k}));
    t.storeStrip(t.addf(t.loadStrip(stream, {m, k}), v), stream, {m, k});
  });
}

void RowChain::perLayerInputs(Value first, Value n) {
  PleAttr ple = spec.getPle();
  int64_t width = ple.getGate().getRows(), hidden = spec.getHidden();
  t.forEach(t.index(0), n, 1, [&](Value m) {
    t.writeActivation(pleIn, m, t.index(0), hidden, [&](Value k) { return t.loadStrip(stream, {m, k}); });
  });
  t.forEach(t.index(0), t.index(width / 16), 1, [&](Value g) {
    Value column = t.mul(g, t.index(16));
    t.contract(ple.getGate(), t.arg("ple_gate"), g, pleIn, {t.index(0), n}, sums, int8);
    t.forEach(t.index(0), n, 1, [&](Value m) {
      Value input = t.loadStrip(t.arg("ple"), {t.add(first, m), column});
      t.storeStrip(t.mulf(t.gelu(t.loadStrip(sums, {m, t.index(0)})), input), block, {m, column});
    });
  });
  t.forEach(t.index(0), n, 1, [&](Value m) {
    t.writeActivation(pleOut, m, t.index(0), width, [&](Value k) { return t.loadStrip(block, {m, k}); });
  });
  t.forEach(t.index(0), t.index(hidden / 16), 1, [&](Value g) {
    t.contract(ple.getProjection(), t.arg("ple_projection"), g, pleOut, {t.index(0), n}, sums, int8);
    t.forEach(t.index(0), n, 1, [&](Value m) {
      t.storeStrip(t.loadStrip(sums, {m, t.index(0)}), other, {m, t.mul(g, t.index(16))});
    });
  });
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value f = rmsOf(other, m, hidden);
    t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
      Value v = t.mulf(t.mulf(t.loadStrip(other, {m, k}), f), t.loadStrip(t.arg("ple_norm"), {k}));
      t.storeStrip(t.addf(t.loadStrip(stream, {m, k}), v), stream, {m, k});
    });
  });
}

void RowChain::route(Value row, Value m) {
  RouteAttr route = spec.getRoute();
  MatrixAttr router = route.getRouter();
  int64_t experts = router.getRows(), hidden = spec.getHidden();
  Value zero = t.index(0), count = t.index(experts);
  Value lowest = t.f32(-3.0e38f);
  Value f = rmsOf(stream, m, hidden);
  t.forEach(zero, t.index(hidden), 16, [&](Value k) {
    Value v = t.mulf(t.mulf(t.loadStrip(stream, {m, k}), f), t.loadStrip(t.arg("router_scale"), {k}));
    t.storeStrip(v, other, {m, k});
  });
  // f32 whatever the activations' type: a flipped choice changes the whole row.
  Activation x;
  x.f32 = other;
  t.forEach(zero, t.index((experts + 15) / 16), 1, [&](Value g) {
    t.contract(router, t.arg("router"), g, x, {m, t.index(1)}, sums, /*int8=*/false);
    t.storeStrip(t.loadStrip(sums, {zero, zero}), logits, {zero, t.mul(g, t.index(16))});
  });
  Value largest = t.loop(zero, count, 1, {lowest}, [&](Value e, ValueRange acc) -> TileBuilder::Values {
    return {t.maxf(acc[0], t.load(logits, {zero, e}))};
  })[0];
  Value total = t.loop(zero, count, 1, {t.f32(0)}, [&](Value e, ValueRange acc) -> TileBuilder::Values {
    Value p = t.exp(t.subf(t.load(logits, {zero, e}), largest));
    t.store(p, logits, {zero, e});
    return {t.addf(acc[0], p)};
  })[0];
  t.forEach(zero, count, 1, [&](Value e) {
    Value p = t.divf(t.load(logits, {zero, e}), total);
    t.store(p, logits, {zero, e});
    t.store(p, chosen, {zero, e});
    t.store(p, t.arg("router_prob"), {row, e});
  });
  Value used = t.index(route.getUsed());
  Value isForced = t.compare(arith::CmpIPredicate::ne, t.load(t.arg("forced_flag"), {zero}), t.i32(0));
  Value forcedAt = t.mul(t.loadIndex(t.arg("route_map"), {row}), used);
  Value sum = t.loop(zero, used, 1, {t.f32(0)}, [&](Value u, ValueRange acc) -> TileBuilder::Values {
    // Strictly greater: of equal probabilities the lowest expert wins.
    auto best = t.loop(zero, count, 1, {t.f32(-1.0f), zero}, [&](Value e, ValueRange b) -> TileBuilder::Values {
      Value p = t.load(chosen, {zero, e});
      Value better = arith::CmpFOp::create(t.b, t.loc, arith::CmpFPredicate::OGT, p, b[0]);
      return {t.select(better, p, b[0]), t.select(better, e, b[1])};
    });
    Value index = arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), best[1]);
    t.store(index, t.arg("router_idx"), {row, u});
    t.ifThen(isForced, [&] { t.store(t.load(t.arg("forced"), {t.add(forcedAt, u)}), t.arg("router_idx"), {row, u}); });
    Value expert = t.loadIndex(t.arg("router_idx"), {row, u});
    t.store(t.f32(-2.0f), chosen, {zero, expert});
    return {t.addf(acc[0], t.load(logits, {zero, expert}))};
  })[0];
  t.forEach(zero, used, 1, [&](Value u) {
    Value expert = t.loadIndex(t.arg("router_idx"), {row, u});
    Value w = t.mulf(t.divf(t.load(logits, {zero, expert}), sum), t.load(t.arg("expert_scale"), {expert}));
    t.store(w, t.arg("router_w"), {row, u});
  });
}

void RowChain::emit(Value first, Value n, ArrayRef<Activation> norms, Value normRow, Value storeHere) {
  int64_t hidden = spec.getHidden();
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value row = t.add(first, m);
    source(row, m);
    if (spec.getAdd() == Add::normed)
      addNormed(row, m);
    if (spec.getAdd() == Add::experts)
      addExperts(row, m);
  });
  if (spec.getPle())
    perLayerInputs(first, n);
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value row = t.add(first, m);
    if (spec.getScaled()) {
      Value scale = t.lane(t.load(t.arg("scale"), {t.index(0)}));
      t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
        t.storeStrip(t.mulf(t.loadStrip(stream, {m, k}), scale), stream, {m, k});
      });
    }
    if (spec.getStore()) {
      auto write = [&] {
        t.forEach(t.index(0), t.index(hidden), 16, [&](Value k) {
          t.storeStrip(t.loadStrip(stream, {m, k}), t.arg("stream_out"), {row, k});
        });
      };
      if (storeHere)
        t.ifThen(storeHere, write);
      else
        write();
    }
    Value f;
    for (unsigned i = 0; i < spec.getNumNorms(); ++i) {
      NormAttr norm = spec.getNorm(i);
      if (norm.getNormalize() && !f)
        f = rmsOf(stream, m, hidden);
      t.writeActivation(norms[i], t.add(m, normRow), t.index(0), hidden, [&](Value k) {
        Value v = t.loadStrip(stream, {m, k});
        if (norm.getNormalize())
          v = t.mulf(v, f);
        if (norm.getGain())
          v = t.mulf(v, t.loadStrip(t.arg("gain" + std::to_string(i)), {k}));
        return v;
      });
    }
    if (spec.getRoute())
      route(row, m);
  });
}

void buildRowKernel(TileBuilder &t, RowKernelAttr spec) {
  RowAttr row = spec.getRow();
  RowChain chain(t, row);
  SmallVector<Activation> norms;
  for (unsigned i = 0; i < row.getNumNorms(); ++i)
    norms.push_back(t.activation("x" + std::to_string(i)));
  Value count = t.toIndex(t.load(t.arg("count"), {t.index(0)}));
  t.forItemBlocks(count, kRowChainRows, 1, [&](Value first, Value n, Value, Value) {
    chain.emit(first, n, norms, first, {});
  });
}

} // namespace g4
