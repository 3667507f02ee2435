/// K/V pages as kernel bodies access them. Used by lower-exec-to-tile only; layout: runtime/module/KvLayout.h.
#pragma once

#include "passes/lower/TileBuilder.h"

namespace g4 {

/// The pages of the layer bound to the kernel's `kv`.
class KvPages {
public:
  using V = mlir::Value;
  using Values = TileBuilder::Values;

  KvPages(TileBuilder &t, gguf::ElementType element, int64_t heads, int64_t dim);

  bool isQuantised() const { return layout.isQuantised(); }

  /// One head's keys or values in a page: where they start, in elements, and where their scales do (null: none).
  struct Place {
    V elements, scales;
  };
  Place keys(V page, V head);
  Place values(V page, V head);

  /// Writes the key or value of position `slot` of its page: row `row` of f32 scratch, `dim` wide.
  void storeKey(Place keys, V slot, V scratch, V row);
  void storeValue(Place values, V slot, V scratch, V row);

  /// Columns that share one scale, or that one strip of a float page holds (values) or one element (keys).
  int64_t blocks() const { return dim / module::kKvBlock; }
  // Keys and values are read where they lie one after the other; with `ahead` what comes next is fetched from memory
  // meanwhile, which the first of several passes over a page should ask for.
  // Of float pages: one column of sixteen keys, sixteen columns of one value.
  V keyStrip(Place keys, V strip, V column, bool ahead);
  V valueStrip(Place values, V slot, V column, bool ahead);
  // Of quantised pages, codes as f32. A block's codes are stored in codeRows() strips of keys; each holds columns
  // j, and with two columns in a byte j + 16, of the block.
  int64_t codeRows() const { return layout.bits == 8 ? 32 : 16; }
  Values keyCodes(Place keys, V strip, V block, V j, bool ahead);
  V keyScales(Place keys, V strip, V block);             ///< of sixteen keys
  V valueCodes(Place values, V slot, V block, int64_t half, bool ahead); ///< columns 16 half .. 16 half + 15 of the block
  V valueScales(Place values, V strip, V block);         ///< of sixteen positions

  /// Rotates row `row` of f32 scratch, `dim` wide: sink(column, strip) takes the result strip by strip, and may store it
  /// in the place it came from.
  void rotate(V scratch, V row, llvm::function_ref<void(V, V)> sink);

private:
  Place place(V page, V head, int64_t plane);
  /// A block's codes as bytes, one strip or two, and its scale, from its two strips of values.
  std::pair<Values, V> quantise(V low, V high);
  V strip(V at, bool ahead); ///< sixteen floats
  V bytes(V at, bool ahead); ///< sixteen codes
  void prefetch(V at);
  V toFloat(V i8); ///< sixteen signed bytes
  V half(V byte, bool high);
  V elements() { return t.arg("kv"); }
  V scales() { return t.arg(exec::kKvScales); }

  TileBuilder &t;
  int64_t dim;
  module::KvLayout layout;
  V codeScratch; // of a key's block, on its way to its lane
};

} // namespace g4
