#include "runtime/module/Format.h"
#include "runtime/module/StepAbi.h"
#include "runtime/module/VerifierDetail.h"

#include <limits>

namespace g4::module::detail {
namespace {

/// Rows that a program has room for in a row set.
uint32_t capacity(const fb::Program &program, fb::RowSet set) {
  switch (set) {
  case fb::RowSet::rows:
    return program.max_rows();
  case fb::RowSet::tail:
    return program.max_tail_rows();
  case fb::RowSet::logits:
    return program.max_logit_rows();
  case fb::RowSet::single:
    return 1;
  }
  return 0;
}

Status checkBuffer(const fb::Program &program, const fb::Buffer &buffer) {
  G4_RETURN_IF_ERROR(checkName("name", buffer.name()));
  G4_RETURN_IF_ERROR(checkEnum("set", buffer.set()));
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("row_bytes", buffer.row_bytes(), 1, kMaxBytes >> 20));
  if (buffer.offset() % kDataAlignment != 0)
    return malformed("offset " + std::to_string(buffer.offset()) + " is no multiple of " +
                     std::to_string(kDataAlignment));
  const uint64_t arena = program.arena_bytes();
  if (buffer.offset() > arena || buffer.size() > arena - buffer.offset())
    return malformed(std::to_string(buffer.size()) + " bytes at " + std::to_string(buffer.offset()) +
                     " are not within the arena of " + std::to_string(arena));
  const uint64_t rows = capacity(program, buffer.set());
  if (buffer.size() < rows * buffer.row_bytes())
    return malformed("size " + std::to_string(buffer.size()) + " is less than " + std::to_string(rows) +
                     " rows of " + std::to_string(buffer.row_bytes()));
  return {};
}

Status checkBinding(const fb::Module &module, const fb::Program &program, const fb::Binding &binding) {
  G4_RETURN_IF_ERROR(checkEnum("kind", binding.kind()));
  const uint32_t index = binding.index();
  uint64_t size = 0; // of what is bound
  switch (binding.kind()) {
  case fb::BindingKind::arena:
    G4_RETURN_IF_ERROR(checkIndex("index (of a buffer)", index, program.buffers()->size()));
    size = program.buffers()->Get(index)->size();
    break;
  case fb::BindingKind::weight:
    G4_RETURN_IF_ERROR(checkIndex("index (of a weight)", index, module.weights()->size()));
    size = module.weights()->Get(index)->size();
    break;
  case fb::BindingKind::kv:
    G4_RETURN_IF_ERROR(checkIndex("index (of a K/V layer)", index, module.kv_layers()->size()));
    size = module.kv_layers()->Get(index)->page_bytes();
    break;
  case fb::BindingKind::descriptor:
    G4_RETURN_IF_ERROR(checkIndex("index (of a slot)", index, uint64_t(fb::Slot::MAX) + 1));
    // The counts and the forced experts (a layer's plane is at a constant offset) have a size of their own; all
    // other slots are as long as the step, and no offset is safe in them.
    size = 1;
    if (index == uint32_t(fb::Slot::counts))
      size = kCountSlots * sizeof(int32_t);
    if (index == uint32_t(fb::Slot::forced_experts))
      size = std::max<uint64_t>(1, uint64_t(module.facts()->layers()->size()) * program.max_rows() *
                                       module.facts()->experts_used() * sizeof(int32_t));
    break;
  }
  return checkIndex("offset", binding.offset(), size);
}

Status checkGrid(const fb::Grid *grid) {
  if (grid == nullptr)
    return malformed("grid is missing");
  G4_RETURN_IF_ERROR(checkEnum("grid set", grid->set()));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("rows_per_item", grid->rows_per_item(), 1, kMaxRows));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("items_per_block", grid->items_per_block(), 1,
                                          std::numeric_limits<int32_t>::max()));
  // Fits int64: at most 2^20 blocks of 2^31 items.
  static_assert(uint64_t(kMaxRows) * std::numeric_limits<int32_t>::max() <
                uint64_t(std::numeric_limits<int64_t>::max()));
  return {};
}

Status checkTap(const fb::Program &program, const fb::Dispatch &dispatch, const fb::Tap &tap) {
  G4_RETURN_IF_ERROR(checkName("name", tap.name()));
  G4_RETURN_IF_ERROR(checkIndex("binding", tap.binding(), dispatch.bindings()->size()));
  const fb::Binding &binding = *dispatch.bindings()->Get(tap.binding());
  if (binding.kind() != fb::BindingKind::arena)
    return malformed("its binding is no arena buffer");
  if (tap.element() != fb::Element::f32 && tap.element() != fb::Element::i32)
    return malformed("element is neither f32 nor i32");
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("columns", tap.columns(), 1, kMaxWidth));
  const fb::Buffer &buffer = *program.buffers()->Get(binding.index());
  const uint64_t bytes = capacity(program, buffer.set()) * tap.columns() * 4;
  if (tap.columns() * 4 > buffer.row_bytes() || bytes > buffer.size() - binding.offset())
    return malformed("columns " + std::to_string(tap.columns()) + " are wider than its buffer");
  return {};
}

Status checkDispatch(const fb::Module &module, const fb::Program &program, const fb::Dispatch &dispatch) {
  G4_RETURN_IF_ERROR(checkIndex("kernel", dispatch.kernel(), module.kernels()->size()));
  G4_RETURN_IF_ERROR(
      checkRange<int64_t>("layer", dispatch.layer(), -1, int64_t(module.facts()->layers()->size()) - 1));
  G4_RETURN_IF_ERROR(checkGrid(dispatch.grid()));
  G4_RETURN_IF_ERROR(checkEach("bindings", dispatch.bindings(), [&](uint32_t, const fb::Binding &binding) {
    return checkBinding(module, program, binding);
  }));
  if (dispatch.taps() == nullptr)
    return {};
  return checkEach("taps", dispatch.taps(),
                   [&](uint32_t, const fb::Tap &tap) { return checkTap(program, dispatch, tap); });
}

Status checkOutput(const fb::Program &program, const fb::Output &output) {
  G4_RETURN_IF_ERROR(checkIndex("buffer", output.buffer(), program.buffers()->size()));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("columns", output.columns(), 1, kMaxWidth));
  const fb::Buffer &buffer = *program.buffers()->Get(output.buffer());
  if (uint64_t(output.columns()) * sizeof(float) > buffer.row_bytes())
    return malformed("columns " + std::to_string(output.columns()) + " are wider than its buffer");
  return {};
}

} // namespace

Status checkProgram(const fb::Module &module, const fb::Program &program) {
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("max_rows", program.max_rows(), 1, kMaxRows));
  G4_RETURN_IF_ERROR(checkRange<uint32_t>("max_tail_rows", program.max_tail_rows(), 1, program.max_rows()));
  G4_RETURN_IF_ERROR(
      checkRange<uint32_t>("max_logit_rows", program.max_logit_rows(), 1, program.max_tail_rows()));
  G4_RETURN_IF_ERROR(checkRange<uint64_t>("arena_bytes", program.arena_bytes(), 0, kMaxBytes));
  G4_RETURN_IF_ERROR(
      checkRange<uint64_t>("peak_live_bytes", program.peak_live_bytes(), 0, program.arena_bytes()));
  G4_RETURN_IF_ERROR(checkEach("buffers", program.buffers(), [&](uint32_t, const fb::Buffer &buffer) {
    return checkBuffer(program, buffer);
  }));
  G4_RETURN_IF_ERROR(
      checkEach("dispatches", program.dispatches(), [&](uint32_t, const fb::Dispatch &dispatch) {
        return checkDispatch(module, program, dispatch);
      }));
  NameSet outputs;
  return checkEach("outputs", program.outputs(), [&](uint32_t, const fb::Output &output) -> Status {
    G4_RETURN_IF_ERROR(outputs.add("name", output.name()));
    return checkOutput(program, output);
  });
}

} // namespace g4::module::detail
