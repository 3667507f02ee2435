/// What a compiled step program expects of the engine: the contract between generated code and the runtime.
/// No MLIR and no runtime types here: the compiler includes this file too.
#pragma once

#include <cstdint>

namespace g4::module {

/// Signature of every CPU kernel. `buffers[i]` is the address of binding i of the dispatch. The kernel does
/// work items [begin, end) of the dispatch's grid. Items of one dispatch are independent; any thread may do any.
using KernelFn = void (*)(void *const *buffers, int64_t begin, int64_t end);

/// Positions per K/V page, in both page classes. 64: two 32-lane or four 16-lane strips, and an eighth of the
/// smallest published window (512), so that little is kept beyond it.
inline constexpr uint32_t kPageTokens = 64;
/// Output rows interleaved in a packed weight, keys in a K strip, and lanes of a strip.
inline constexpr uint32_t kLanes = 16;

/// Indices into the `counts` slot (int32).
enum Count : uint32_t {
  kCountRows,          ///< rows of the step
  kCountTail,          ///< tail rows, <= rows
  kCountLogits,        ///< logit rows, <= tail rows
  kCountBlocksSliding, ///< entries per sequence in blocks_sliding
  kCountBlocksGlobal,  ///< entries per sequence in blocks_global
  kCountForced,        ///< 1: MoE layers take their expert ids from forced_experts
  kCountSlots = 16
};

// Slots, all int32 unless said:
//   counts          [kCountSlots]
//   tokens          [rows]              token ids; 0 in rows that carry media features
//   positions       [rows]              absolute position in the sequence
//   sequences       [rows]              index into the block tables
//   row_map         [rows]              0, 1, 2, ...
//   tail_map        [tail]              row index of each tail row, ascending
//   logit_map       [logits]            **tail** index of each logit row, ascending
//   blocks_sliding  [sequences, counts[kCountBlocksSliding]]  page id of absolute page p (position / kPageTokens); -1 = released
//   blocks_global   [sequences, counts[kCountBlocksGlobal]]
//   rope_sliding    f32 [rows, dim]     cos of dim/2 angles, then sin
//   rope_global     f32 [rows, dim]
//   forced_experts  [layers, max_rows, experts_used]   by row; read only when counts[kCountForced] is 1
//
// A kernel that works on the tail set finds the row of tail row i through tail_map, and with it position,
// sequence and rope angles, which are stored by row.
//
// K/V of one layer: pages as KvLayout.h says.
//
// Outputs, by name, f32, one row for each row of their set and no gaps:
//   logits          [logits, vocabulary]
//   hidden          [tail, hidden]      after the final norm
//   logit_maxima    [logits, n]         the largest of each vocabulary / n logits in turn; a NaN counts as +inf.
//                                       A program may go without.

} // namespace g4::module
