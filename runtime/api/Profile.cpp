#include "runtime/api/Profile.h"
#include "runtime/module/PackedLayout.h"

#include <algorithm>
#include <cmath>

namespace g4::api {
namespace {

namespace fb = module::fb;

size_t rowsIn(fb::RowSet set, const engine::Step &step) {
  switch (set) {
  case fb::RowSet::rows:
    return step.tokens.size();
  case fb::RowSet::tail:
    return step.tailRows.size();
  case fb::RowSet::logits:
    return step.logitRows.size();
  case fb::RowSet::single:
    break;
  }
  return 1;
}

/// Positions whose K/V the rows of `set` see, those of each sequence once. `window` 0: all before.
uint64_t positionsSeen(fb::RowSet set, const engine::Step &step, uint32_t window) {
  uint64_t seen = 0;
  const size_t rows = rowsIn(set, step);
  const auto row = [&](size_t i) {
    return set == fb::RowSet::tail     ? step.tailRows[i]
           : set == fb::RowSet::logits ? step.logitRows[i]
                                       : uint32_t(i);
  };
  for (size_t i = 0, end; i < rows; i = end) { // rows of a sequence stand together
    for (end = i + 1; end < rows && step.sequences[row(end)] == step.sequences[row(i)];)
      ++end;
    const uint32_t first = step.positions[row(i)], last = step.positions[row(end - 1)];
    seen += last + 1 - (window && first + 1 > window ? first + 1 - window : 0);
  }
  return seen;
}

bool binds(const fb::Dispatch &dispatch, fb::BindingKind kind, uint32_t index) {
  return std::any_of(dispatch.bindings()->begin(), dispatch.bindings()->end(),
                     [&](const fb::Binding *b) { return b->kind() == kind && b->index() == index; });
}

/// Weights that a dispatch reads, each once.
struct Weights {
  std::vector<const fb::Weight *> vectors, tables, matrices; ///< tables: of which it reads the rows of tokens
};

Weights weightsOf(const fb::Module &module, const fb::Dispatch &dispatch) {
  const bool looksUp = binds(dispatch, fb::BindingKind::descriptor, uint32_t(fb::Slot::tokens));
  Weights out;
  for (const fb::Binding *binding : *dispatch.bindings()) {
    if (binding->kind() != fb::BindingKind::weight)
      continue;
    const fb::Weight *weight = module.weights()->Get(binding->index());
    auto &list = looksUp && weight->rows() == module.facts()->vocabulary() ? out.tables
                 : weight->rows() == 1                                     ? out.vectors
                                                                           : out.matrices;
    if (std::find(list.begin(), list.end(), weight) == list.end())
      list.push_back(weight);
  }
  return out;
}

std::string_view familyOf(const fb::Module &module, const fb::Weight &weight) {
  const module::PackedLayout *layout = module::packedLayout(weight.layout()->string_view());
  return !layout || layout->isFloat || module.facts()->activations()->string_view() == "f32" ? "f32"
                                                                                             : layout->name;
}

void addMacs(std::vector<FamilyMacs> &to, std::string_view family, uint64_t macs) {
  auto found = std::find_if(to.begin(), to.end(), [&](const FamilyMacs &m) { return m.family == family; });
  if (found == to.end())
    found = to.insert(found, {family, 0});
  found->macs += macs;
}

} // namespace

std::vector<std::string_view> familiesOf(const module::Module &module) {
  std::vector<FamilyMacs> all;
  for (const fb::Dispatch *dispatch : *module.findProgram("step")->dispatches())
    if (dispatch->macs_per_row() > 0)
      for (const fb::Weight *weight : weightsOf(module.root(), *dispatch).matrices)
        addMacs(all, familyOf(module.root(), *weight), 0);
  std::vector<std::string_view> names;
  for (const FamilyMacs &family : all)
    names.push_back(family.family);
  return names;
}

Profiler::Profiler(const module::Module &module) : module_(module) {
  for (const auto *kernel : *module.root().kernels())
    sum_.kernels.push_back({.kernel = kernel->string_view()});
}

/// The header says how many multiplications a row costs, so which part of its matrices a dispatch needs: all
/// of an ordinary one, those of the chosen experts of several rows. Rows that tokens choose are few.
void Profiler::addWork(const fb::Dispatch &dispatch, const engine::Step &step, KernelUse &use) const {
  const fb::Facts &facts = *module_.root().facts();
  const fb::RowSet set = dispatch.grid()->set();
  const size_t rows = rowsIn(set, step);
  const Weights weights = weightsOf(module_.root(), dispatch);
  for (const fb::Weight *weight : weights.vectors)
    use.weightBytes += weight->size();
  for (const fb::Weight *weight : weights.tables)
    use.weightBytes += weight->size() / weight->rows() * rows;
  uint64_t matrixBytes = 0, elements = 0;
  for (const fb::Weight *weight : weights.matrices) {
    matrixBytes += weight->size();
    elements += weight->rows() * weight->columns();
  }
  if (elements) {
    const double share = std::min(1.0, double(dispatch.macs_per_row()) / double(elements));
    use.weightBytes += uint64_t(std::llround((1 - std::pow(1 - share, double(rows))) * double(matrixBytes)));
  }
  uint64_t macs = dispatch.macs_per_row() * rows;
  for (size_t i = 0; macs > 0 && i < weights.matrices.size(); ++i) {
    const fb::Weight *weight = weights.matrices[i];
    const uint64_t own = weight->rows() * weight->columns();
    const auto part = uint64_t(double(macs) * double(own) / double(elements)); // all of it for the last one
    addMacs(use.macs, familyOf(module_.root(), *weight), part);
    macs -= part, elements -= own;
  }
  // What computes K/V multiplies with weights; attention does not.
  std::vector<uint32_t> seen;
  for (const fb::Binding *binding : *dispatch.bindings())
    if (binding->kind() == fb::BindingKind::kv && dispatch.macs_per_row() == 0 &&
        std::find(seen.begin(), seen.end(), binding->index()) == seen.end()) {
      seen.push_back(binding->index());
      const fb::KvLayer &layer = *module_.root().kv_layers()->Get(binding->index());
      const bool sliding = layer.kv_class() == fb::KvClass::sliding;
      use.kvBytes +=
          layer.page_bytes() / facts.page_tokens() * positionsSeen(set, step, sliding ? facts.window() : 0);
    }
}

void Profiler::add(const engine::Step &step, std::span<const device::LaunchSpan> spans, double seconds) {
  const auto &dispatches = *module_.findProgram("step")->dispatches();
  struct Interval {
    int64_t begin = 0, end = 0, busy = 0;
  };
  std::vector<Interval> intervals(dispatches.size());
  for (const device::LaunchSpan &span : spans) {
    Interval &i = intervals[span.launch];
    i = {i.end ? std::min(i.begin, span.beginNs) : span.beginNs, std::max(i.end, span.endNs),
         i.busy + span.endNs - span.beginNs};
  }
  for (uint32_t i = 0; i < dispatches.size(); ++i) {
    if (intervals[i].end == 0)
      continue;
    KernelUse &use = sum_.kernels[dispatches[i]->kernel()];
    use.calls += 1;
    use.seconds += double(intervals[i].end - intervals[i].begin) * 1e-9;
    use.busySeconds += double(intervals[i].busy) * 1e-9;
    addWork(*dispatches[i], step, use);
  }
  // Dispatches without a barrier between them overlap.
  std::sort(intervals.begin(), intervals.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  int64_t covered = 0, end = 0;
  for (const Interval &i : intervals) {
    covered += std::max<int64_t>(0, i.end - std::max(i.begin, end));
    end = std::max(end, i.end);
  }
  sum_.steps += 1;
  sum_.seconds += seconds;
  sum_.idleSeconds += seconds - double(covered) * 1e-9;
}

Profile Profiler::profile() const {
  Profile out = sum_;
  std::erase_if(out.kernels, [](const KernelUse &use) { return use.calls == 0; });
  std::sort(out.kernels.begin(), out.kernels.end(),
            [](const KernelUse &a, const KernelUse &b) { return a.seconds > b.seconds; });
  return out;
}

} // namespace g4::api
