// What kernel specifications must promise before their bodies may be written: a body takes its bounds from
// them.
#include "dialects/exec/Signature.h"
#include "runtime/module/PackedLayout.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace g4::exec {
namespace {

constexpr int64_t kBlock = 32; // columns of a weight block, and of a block of quantised activations
constexpr int64_t kLanes = 16; // rows of a group of packed rows

bool positiveMultiple(int64_t n, int64_t of) { return n > 0 && n % of == 0; }

class Verifier {
public:
  explicit Verifier(function_ref<InFlightDiagnostic()> emitError) : error(emitError) {}

  /// `scaled`: how many scales the kernel can apply, if it can.
  LogicalResult matrix(MatrixAttr m, StringRef what, int64_t scaled = 0) {
    const module::PackedLayout &layout = gguf::getPackedLayout(m.getElement());
    if (m.getRows() <= 0 || !positiveMultiple(m.getColumns(), layout.superColumns)) // matrix_c1
      return error() << what << " is " << m.getRows() << "x" << m.getColumns() << ", but " << layout.name << " packs "
                     << layout.superColumns << " columns at a time";
    if (m.getScales() != 0 && m.getScales() != scaled && (m.getScales() != 1 || scaled == 0)) // matrix_c2
      return error() << what << " has " << m.getScales() << " scales, which the kernel does not apply";
    return success();
  }

  /// A matrix that is contracted with activations of `columns` columns.
  LogicalResult factor(MatrixAttr m, int64_t columns, StringRef what, int64_t scaled = 0) {
    if (failed(matrix(m, what, scaled)))
      return failure();
    if (m.getColumns() != columns)
      return error() << what << " has " << m.getColumns() << " columns, but its input has " << columns;
    return width(columns, "its input");
  }

  LogicalResult width(int64_t n, StringRef what) {
    if (!positiveMultiple(n, kBlock))
      return error() << what << " is " << n << " wide, expected a multiple of " << kBlock;
    return success();
  }

  LogicalResult forms(FormsAttr f, StringRef what) {
    if (!f || (!f.getF32() && !f.getQ8()))
      return error() << what << " is written in no form";
    return success();
  }

  LogicalResult pages(gguf::ElementType element, int64_t heads, int64_t dim) {
    if (!kvLayout(element, heads, dim))
      return error() << "there are no K/V pages of " << gguf::stringifyElementType(element) << " for heads of " << dim;
    return success();
  }

  LogicalResult row(RowAttr r) {
    if (failed(width(r.getHidden(), "the stream"))) // row_c1
      return failure();
    bool embeds = r.getSource() == Source::embed;
    if (embeds != bool(r.getEmbed()) || embeds != bool(r.getEmbedScale())) // row_c2
      return error() << "a row chain has an embedding table and scale exactly if it starts from one";
    if (embeds && failed(factor(r.getEmbed(), r.getHidden(), "the embedding table")))
      return failure();
    if ((r.getAdd() == Add::experts) != (r.getExpertsUsed() > 0)) // row_c3
      return error() << "a row chain adds " << r.getExpertsUsed() << " experts, but its sum is '"
                     << stringifyAdd(r.getAdd()) << "'";
    if (PleAttr p = r.getPle()) { // row_c4
      int64_t inner = p.getGate().getRows();
      if (failed(factor(p.getGate(), r.getHidden(), "the per-layer gate")) ||
          failed(factor(p.getProjection(), inner, "the per-layer projection")))
        return failure();
      if (p.getProjection().getRows() != r.getHidden() || p.getStride() < inner)
        return error() << "the per-layer projection gives " << p.getProjection().getRows() << " of "
                       << r.getHidden() << " values from " << inner << " of " << p.getStride() << " inputs";
    }
    for (unsigned i = 0; i < r.getNumNorms(); ++i) { // row_c5
      auto norm = dyn_cast<NormAttr>(r.getNorms()[i]);
      if (!norm)
        return error() << "norm " << i << " of a row chain is " << r.getNorms()[i];
      if (failed(forms(norm.getForms(), "a norm")))
        return failure();
    }
    if (RouteAttr route = r.getRoute()) { // row_c6
      if (failed(factor(route.getRouter(), r.getHidden(), "the router")))
        return failure();
      if (route.getUsed() <= 0 || route.getUsed() > route.getRouter().getRows())
        return error() << "a row chain chooses " << route.getUsed() << " of " << route.getRouter().getRows()
                       << " experts";
    }
    return success();
  }

  LogicalResult linear(LinearAttr l) {
    for (MatrixAttr part : l.getParts()) // linear_c1
      if (failed(factor(part, l.getColumns(), "a part", /*scaled=*/1)))
        return failure();
    size_t parts = l.getParts().size();
    HeadsAttr h = l.getHeads();
    size_t wanted = l.getEpilogue() == Epilogue::geglu ? 2 : 1;
    if (l.getEpilogue() == Epilogue::heads && h)
      wanted = size_t(h.getQuery()) + h.getKey() + h.getValue();
    if (parts == 0 || parts != wanted) // linear_c2
      return error() << "epilogue '" << stringifyEpilogue(l.getEpilogue()) << "' takes " << wanted
                     << " parts, but there are " << parts;
    if (bool(h) != (l.getEpilogue() == Epilogue::heads) ||
        bool(l.getPerLayer()) != (l.getEpilogue() == Epilogue::per_layer) ||
        bool(l.getOut()) != (l.getEpilogue() == Epilogue::geglu) ||
        (l.getSoftcap() && l.getEpilogue() != Epilogue::logits)) // linear_c3
      return error() << "epilogue '" << stringifyEpilogue(l.getEpilogue())
                     << "' does not take these attributes";
    if (l.getRowsPerItem() <= 0) // linear_c4
      return error() << "a work item has " << l.getRowsPerItem() << " rows";
    if (l.getSoftcap() && !(l.getSoftcap().getValueAsDouble() > 0))
      return error() << "a softcap of " << l.getSoftcap().getValueAsDouble();
    if (failed(tiles(l)))
      return failure();
    if (RowAttr r = l.getRow()) { // linear_c6
      if (failed(row(r)))
        return failure();
      InputForms need = inputForms(l.getParts(), l.getInt8());
      if (r.getNumNorms() != 1 || r.getHidden() != l.getColumns() || r.getRoute() ||
          r.getInt8() != l.getInt8() || (need.f32 && !r.getNorm(0).getForms().getF32()) ||
          (need.q8 && !r.getNorm(0).getForms().getQ8()))
        return error() << "a prologue has one norm, as wide as the parts and in the form that they read";
    }
    return success();
  }

  /// The outputs of one work item stay within a row: linear_c5.
  LogicalResult tiles(LinearAttr l) {
    int64_t tile = l.getTile(), rows = l.getParts()[0].getRows();
    auto bad = [&] {
      return error() << "a tile of " << tile << " outputs does not fit " << rows << " with epilogue '"
                     << stringifyEpilogue(l.getEpilogue()) << "'";
    };
    switch (l.getEpilogue()) {
    case Epilogue::store:
    case Epilogue::logits:
      if (!positiveMultiple(tile, kLanes) || (rows + kLanes - 1) / kLanes * kLanes % tile)
        return bad();
      return success();
    case Epilogue::geglu:
      if (!positiveMultiple(tile, kBlock) || rows % tile || l.getParts()[1].getRows() != rows)
        return bad();
      return forms(l.getOut(), "the result");
    case Epilogue::heads:
      return heads(l);
    case Epilogue::per_layer: {
      PerLayerAttr p = l.getPerLayer();
      if (failed(matrix(p.getTable(), "the per-layer table")))
        return failure();
      int64_t width = p.getWidth();
      if (!positiveMultiple(width, kLanes) || tile != width || rows % width)
        return bad();
      // linear_c7
      if (p.getFirstLayer() < 0 || p.getTable().getColumns() / width < p.getFirstLayer() + rows / width)
        return error() << "the per-layer table has " << p.getTable().getColumns() / width << " layers, but "
                       << rows / width << " from layer " << p.getFirstLayer() << " on are read";
      return success();
    }
    }
    return success();
  }

  LogicalResult heads(LinearAttr l) {
    HeadsAttr h = l.getHeads();
    if (!positiveMultiple(h.getDim(), kBlock) || h.getHeads() <= 0 || h.getKvHeads() <= 0 ||
        l.getTile() != h.getDim()) // heads_c1
      return error() << "heads of " << h.getDim() << " do not fit a tile of " << l.getTile() << " outputs";
    if (h.getValue() && !h.getKey()) // heads_c2
      return error() << "values are written with their keys";
    if (failed(pages(h.getKvElement(), h.getKvHeads(), h.getDim()))) // heads_c2
      return failure();
    SmallVector<int64_t> wanted;
    if (h.getQuery())
      wanted.push_back(h.getHeads());
    wanted.append(size_t(h.getKey()) + h.getValue(), h.getKvHeads());
    for (auto [part, n] : llvm::zip(l.getParts(), wanted))
      if (part.getRows() != n * h.getDim()) // heads_c3
        return error() << "a part has " << part.getRows() << " rows, expected " << n << " heads of "
                       << h.getDim();
    return success();
  }

  LogicalResult attention(AttentionAttr a) {
    if (a.getKvHeads() <= 0 || !positiveMultiple(a.getHeads(), a.getKvHeads())) // attention_c1
      return error() << a.getHeads() << " query heads cannot share " << a.getKvHeads() << " K/V heads";
    if (failed(width(a.getDim(), "a head"))) // attention_c2
      return failure();
    if (a.getWindow() < 0) // attention_c3
      return error() << "a window of " << a.getWindow();
    if (failed(pages(a.getKvElement(), a.getKvHeads(), a.getDim()))) // attention_c3
      return failure();
    return forms(a.getForms(), "the result"); // attention_c4
  }

  LogicalResult sort(SortExpertsAttr s) {
    if (s.getUsed() <= 0 || s.getUsed() > s.getExperts() || s.getTileRows() <= 0) // sort_experts_c1
      return error() << "tiles of " << s.getTileRows() << " rows for " << s.getUsed() << " of "
                     << s.getExperts() << " experts";
    return success();
  }

  LogicalResult experts(ExpertsAttr e) {
    bool up = e.getParts().size() == 2;
    if (e.getUsed() <= 0 || e.getUsed() > e.getExperts() || e.getTileRows() <= 0) // experts_c1
      return error() << "tiles of " << e.getTileRows() << " rows for " << e.getUsed() << " of "
                     << e.getExperts() << " experts";
    if ((!up && e.getParts().size() != 1) || up != bool(e.getOut())) // experts_c2
      return error()
             << "experts have gate and up, whose result has forms, or down alone, whose result has none";
    if (up && failed(forms(e.getOut(), "the result")))
      return failure();
    int64_t rows = e.getParts()[0].getRows(), outputs = rows / e.getExperts();
    for (MatrixAttr part : e.getParts()) // experts_c3
      if (failed(factor(part, e.getParts()[0].getColumns(), "a part", /*scaled=*/e.getExperts())))
        return failure();
    if (!positiveMultiple(e.getTile(), up ? kBlock : kLanes) || rows % e.getExperts() ||
        !positiveMultiple(outputs, e.getTile()) || (up && e.getParts()[1].getRows() != rows)) // experts_c4
      return error() << "a tile of " << e.getTile() << " outputs does not fit " << rows << " rows of "
                     << e.getExperts() << " experts";
    return success();
  }

private:
  function_ref<InFlightDiagnostic()> error;
};

} // namespace

LogicalResult verifySpec(Attribute spec, function_ref<InFlightDiagnostic()> emitError) {
  Verifier v(emitError);
  return TypeSwitch<Attribute, LogicalResult>(spec)
      .Case([&](LinearAttr l) { return v.linear(l); })
      .Case([&](AttentionAttr a) { return v.attention(a); })
      .Case([&](RowKernelAttr r) { return v.row(r.getRow()); })
      .Case([&](SortExpertsAttr s) { return v.sort(s); })
      .Case([&](ExpertsAttr e) { return v.experts(e); })
      .Default(
          [&](Attribute a) -> LogicalResult { return emitError() << "has no kernel specification: " << a; });
}

} // namespace g4::exec
