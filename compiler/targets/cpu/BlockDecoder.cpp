#include "compiler/targets/cpu/BlockDecoder.h"

#include "dialects/tile/Codebooks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace g4::cpu {

using module::Codes;
using module::Scales;

std::optional<Isa> parseIsa(StringRef name) {
  return llvm::StringSwitch<std::optional<Isa>>(name)
      .Case("avx2", Isa::kAvx2)
      .Case("avx-vnni", Isa::kAvxVnni)
      .Case("avx512-vnni", Isa::kAvx512Vnni)
      .Case("emulated", Isa::kEmulated)
      .Case("dotprod", Isa::kDotprod)
      .Case("i8mm", Isa::kI8mm)
      .Default(std::nullopt);
}

BlockDecoder::BlockDecoder(OpBuilder &b, Location loc, Isa isa, TypedValue<tile::BlockType> value)
    : b(b), loc(loc), isa(isa), layout(gguf::getPackedLayout(value.getType().getElement())),
      i8(b.getI8Type()), i16(b.getI16Type()), i32(b.getI32Type()), f32(b.getF32Type()), element(value.getType().getElement()) {
  bool wide = isa == Isa::kAvx512Vnni || isa == Isa::kEmulated;
  width = isNeon(isa) ? 16 : wide ? 64 : 32;
  parts = 64 / width;
  if (auto decoded = value.getDefiningOp<tile::LoadDecodedOp>()) {
    panel = decoded.getPanel();
    slot = decoded.getSlot();
    return;
  }
  auto block = cast<tile::LoadQuantOp>(value.getDefiningOp());
  memory = block.getWeights();
  V group = mul(block.getGroup(), layout.groupBytes(block.getColumns()));
  if (layout.isFloat) {
    codeBase = add(group, mul(block.getBlock(), 32 * layout.superBytes()));
    return;
  }
  if (layout.groupHeaderBytes()) {
    rowScales = group;
    group = add(group, index(layout.groupHeaderBytes()));
  }
  int64_t blocks = layout.superColumns / 32;
  V super = blocks == 1 ? block.getBlock() : V(arith::DivUIOp::create(b, loc, block.getBlock(), index(blocks)));
  blockInSuper = blocks == 1 ? index(0) : V(arith::RemUIOp::create(b, loc, block.getBlock(), index(blocks)));
  superBase = add(group, mul(super, layout.superBytes()));
  codeBase = add(superBase, index(layout.headerBytes()));
  if (layout.codes != Codes::kTernary)
    codeBase = add(codeBase, mul(blockInSuper, layout.blockCodeBytes()));
}

Value BlockDecoder::index(int64_t v) { return arith::ConstantIndexOp::create(b, loc, v); }
Value BlockDecoder::add(V x, V y) { return arith::AddIOp::create(b, loc, x, y); }
Value BlockDecoder::mul(V x, int64_t y) { return arith::MulIOp::create(b, loc, x, index(y)); }
Value BlockDecoder::bytes(V offset, int64_t n) {
  return vector::LoadOp::create(b, loc, vec(n, i8), memory, ValueRange{offset});
}
Value BlockDecoder::constant(VectorType type, int64_t v) {
  auto element = IntegerAttr::get(type.getElementType(), APInt(type.getElementTypeBitWidth(), uint64_t(v), false, true));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, element));
}
Value BlockDecoder::intrinsic(StringRef name, Type result, ArrayRef<V> operands) {
  return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name), ValueRange(operands)).getResult(0);
}
Value BlockDecoder::lane(V scalar) {
  return vector::BroadcastOp::create(b, loc, VectorType::get({16}, scalar.getType()), scalar);
}
Value BlockDecoder::toFloat(V ints) { return arith::SIToFPOp::create(b, loc, vec(16, f32), ints); }

Value BlockDecoder::sixteenRows(ArrayRef<V> each) {
  SmallVector<V> joined(each);
  for (int64_t lanes = width / 2; joined.size() > 1; lanes *= 2) {
    for (size_t i = 0; i < joined.size() / 2; ++i)
      joined[i] = vector::ShuffleOp::create(b, loc, joined[2 * i], joined[2 * i + 1], llvm::to_vector(llvm::seq<int64_t>(0, lanes)));
    joined.resize(joined.size() / 2);
  }
  return joined[0];
}

Value BlockDecoder::rowsOf(V sixteen, unsigned part) {
  if (parts == 1)
    return sixteen;
  return vector::ShuffleOp::create(b, loc, sixteen, sixteen, llvm::to_vector(llvm::seq<int64_t>(16 / parts * part, 16 / parts * (part + 1))));
}

void BlockDecoder::prefetchAhead() {
  // The processor's own prefetcher sees too little of the stream at once. Blocks that were best, measured on Zen 3 with all cores
  // reading: what takes work to decode leaves the processor few loads to run ahead of, so more must be on their way.
  constexpr int64_t kToDecode = 7, kStoredWhole = 2, kLine = 64;
  if (panel)
    return;
  // Headers lie before their super-block's codes: evenly spread steps pass over all of them.
  int64_t blocks = layout.isFloat ? 1 : layout.superColumns / 32;
  int64_t bytes = layout.isFloat ? 32 * layout.superBytes() : layout.superBytes() / blocks;
  V at = layout.isFloat ? codeBase : add(superBase, mul(blockInSuper, bytes));
  int64_t ahead = bytes * (layout.isFloat || layout.bits == 8 ? kStoredWhole : kToDecode);
  for (int64_t line = 0; line < bytes; line += kLine)
    memref::PrefetchOp::create(b, loc, memory, ValueRange{add(at, index(ahead + line))}, /*isWrite=*/false, /*localityHint=*/3,
                               /*isDataCache=*/true);
}

// ---- scales --------------------------------------------------------------------------------------------------------

Value BlockDecoder::halves(int64_t offset) {
  V raw = bytes(add(superBase, index(offset)), 32);
  return arith::ExtFOp::create(b, loc, vec(16, f32), V(vector::BitCastOp::create(b, loc, vec(16, b.getF16Type()), raw)));
}

Value BlockDecoder::scaleBytes(uint32_t firstPlane, unsigned n, bool isSigned) {
  unsigned perBlock = layout.subBlocks * 32 / layout.superColumns;
  V raw = bytes(add(mul(blockInSuper, 16 * perBlock), add(superBase, index(firstPlane + 16 * n))), 16);
  return isSigned ? V(arith::ExtSIOp::create(b, loc, vec(16, i32), raw)) : V(arith::ExtUIOp::create(b, loc, vec(16, i32), raw));
}

Value BlockDecoder::scaleOf(unsigned n) {
  n = std::min(n, subBlocks() - 1);
  if (scales[n])
    return scales[n];
  if (panel)
    return scales[n] = strip(n);
  VectorType ints = vec(16, i32), floats = vec(16, f32);
  auto timesD = [&](V factor) -> V {
    if (!d)
      d = halves(0);
    return factor ? V(arith::MulFOp::create(b, loc, d, toFloat(factor))) : d;
  };
  auto asFloat = [&](V bits) -> V { return arith::BitcastOp::create(b, loc, floats, bits); };
  auto times = [&](V x, float y) -> V {
    return arith::MulFOp::create(b, loc, x, arith::ConstantOp::create(b, loc, DenseElementsAttr::get(floats, y)));
  };
  V &scale = scales[n];
  switch (layout.scales) {
  case Scales::kNone:
    return scale = timesD({});
  case Scales::kI8:
  case Scales::kU8:
    return scale = timesD(scaleBytes(layout.scalesOffset(), n, layout.scales == Scales::kI8));
  case Scales::kU4:
    return scale = timesD(arith::AndIOp::create(b, loc, scaleBytes(layout.scalesOffset(), n, false), constant(ints, 15)));
  case Scales::kE8m0: {
    V e = scaleBytes(layout.scalesOffset(), n, false), one = constant(ints, 1);
    V normal = arith::ShLIOp::create(b, loc, arith::SubIOp::create(b, loc, e, one), constant(ints, 23));
    V subnormal = arith::ShLIOp::create(b, loc, constant(ints, 0x00200000), arith::MinUIOp::create(b, loc, e, one));
    V isNormal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, e, one);
    return scale = asFloat(arith::SelectOp::create(b, loc, isNormal, normal, subnormal));
  }
  case Scales::kUe4m3: {
    // The bits as a float's are the value times 2^-120, its subnormals too.
    V byte = scaleBytes(layout.scalesOffset(), n, false);
    V isNan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, byte, constant(ints, 0x7f));
    V number = arith::AndIOp::create(b, loc, byte, constant(ints, 0x7f));
    number = arith::SelectOp::create(b, loc, isNan, constant(ints, 0), number);
    V value = times(asFloat(arith::ShLIOp::create(b, loc, number, constant(ints, 20))), 0x1p119f);
    return scale = arith::MulFOp::create(b, loc, value, V(vector::BitCastOp::create(b, loc, floats, bytes(rowScales, 64))));
  }
  case Scales::kGrid: {
    V odd = arith::OrIOp::create(b, loc, arith::ShLIOp::create(b, loc, field(layout.grid.scale, n), constant(ints, 1)), constant(ints, 1));
    scale = timesD(odd);
    return scale = layout.grid.unit == 1 ? scale : times(scale, layout.grid.unit);
  }
  }
  llvm_unreachable("every kind of scales is listed");
}

Value BlockDecoder::addend(unsigned n) {
  n = std::min(n, subBlocks() - 1);
  if (!layout.hasMin || addends[n])
    return addends[n];
  if (panel)
    return addends[n] = strip(subBlocks() + n);
  V m = halves(32), factor;
  if (layout.scales == Scales::kNone)
    return addends[n] = m;
  if (layout.scales == Scales::kU8)
    factor = scaleBytes(layout.minimaOffset(), n, false);
  else
    factor = arith::ShRUIOp::create(b, loc, scaleBytes(layout.scalesOffset(), n, false), constant(vec(16, i32), 4));
  return addends[n] = arith::NegFOp::create(b, loc, arith::MulFOp::create(b, loc, m, toFloat(factor)));
}

// ---- codes ---------------------------------------------------------------------------------------------------------

Value BlockDecoder::stored(unsigned j, unsigned part) {
  V &v = planes[{j, part}];
  if (!v)
    v = bytes(add(codeBase, index(64 * j + part * width)), width);
  return v;
}

Value BlockDecoder::shifted(V vector, int right) {
  if (right == 0)
    return vector;
  VectorType words = vec(width / 2, i16); // there are no shifts of bytes
  V moved = vector::BitCastOp::create(b, loc, words, vector);
  if (right > 0)
    moved = arith::ShRUIOp::create(b, loc, moved, constant(words, right));
  else
    moved = arith::ShLIOp::create(b, loc, moved, constant(words, -right));
  return vector::BitCastOp::create(b, loc, vec(width, i8), moved);
}

Value BlockDecoder::masked(V vector, int64_t bits) {
  return arith::AndIOp::create(b, loc, vector, constant(vec(width, i8), bits));
}

Value BlockDecoder::strip(int64_t n) {
  int64_t first = tile::kDecodedCodeBytes + n * tile::kDecodedStripBytes;
  V raw = vector::LoadOp::create(b, loc, vec(tile::kDecodedStripBytes, i8), panel, ValueRange{slot, index(first)});
  return vector::BitCastOp::create(b, loc, vec(16, f32), raw);
}

Value BlockDecoder::codesAt(V i, unsigned part) {
  return vector::LoadOp::create(b, loc, vec(width, i8), panel, ValueRange{slot, add(mul(i, 64), index(part * width))});
}

Value BlockDecoder::codes(unsigned i, unsigned part) {
  V &v = codeCache[{i, part}];
  if (v)
    return v;
  if (panel)
    return v = codesAt(index(i), part);
  V made;
  switch (layout.codes) {
  case Codes::kPlanes:
    made = planeCodes(i, part);
    break;
  case Codes::kTable:
    made = lookUp(planeCodes(i, part));
    break;
  case Codes::kTernary:
    made = digits(i, part);
    break;
  case Codes::kGrid:
    made = gridCodes(i, part);
    break;
  }
  return codeCache[{i, part}] = made;
}

SmallVector<unsigned> BlockDecoder::inOrder(unsigned first, unsigned last) const {
  SmallVector<unsigned> order;
  bool nibbles = !panel && (layout.codes == Codes::kPlanes || layout.codes == Codes::kTable) && (layout.bits & 4);
  for (unsigned n = 0; n < 8; ++n)
    if (unsigned i = nibbles ? n / 2 + 4 * (n % 2) : n; i >= first && i < last) // a vector of nibbles has codes j and j + 4
      order.push_back(i);
  return order;
}

Value BlockDecoder::planeCodes(unsigned i, unsigned part) {
  V code;
  unsigned first = 0, taken = 0; // vectors before the plane, bits before its own
  for (unsigned w : {8, 4, 2, 1}) {
    if (!(layout.bits & w))
      continue;
    if (w == 8)
      return stored(i, part);
    unsigned j = w == 4 ? i % 4 : w == 2 ? i / 4 : 0, bit = w == 4 ? 4 * (i / 4) : w == 2 ? 2 * (i % 4) : i;
    unsigned place = taken + (layout.step == 2);
    V bits = masked(shifted(stored(first + j, part), int(bit) - int(place)), ((1 << w) - 1) << place);
    code = code ? V(arith::OrIOp::create(b, loc, code, bits)) : bits;
    first += w;
    taken += w;
  }
  return code;
}

Value BlockDecoder::lookUp(V nibbles) {
  VectorType own = vec(width, i8);
  SmallVector<int8_t> table;
  for (int8_t value : tile::tableOf(element))
    table.push_back(int8_t(value + layout.zero));
  if (isNeon(isa)) {
    V values = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(own, ArrayRef<int8_t>(table)));
    return intrinsic("llvm.aarch64.neon.tbl1.v16i8", own, {values, nibbles});
  }
  if (isa != Isa::kEmulated) {
    SmallVector<int8_t> repeated; // the instruction works on sixteen bytes at a time
    for (unsigned l = 0; l < width; ++l)
      repeated.push_back(table[l % 16]);
    V values = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(own, ArrayRef<int8_t>(repeated)));
    return intrinsic(width == 64 ? "llvm.x86.avx512.pshuf.b.512" : "llvm.x86.avx2.pshuf.b", own, {values, nibbles});
  }
  SmallVector<V> values;
  for (int8_t v : table)
    values.push_back(constant(own, v));
  for (int64_t bit = 1; values.size() > 1; bit *= 2) {
    V set = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked(nibbles, bit), constant(own, 0));
    SmallVector<V> chosen;
    for (size_t v = 0; v < values.size(); v += 2)
      chosen.push_back(arith::SelectOp::create(b, loc, set, values[v + 1], values[v]));
    values = std::move(chosen);
  }
  return values[0];
}

Value BlockDecoder::digits(unsigned i, unsigned part) {
  // Vector 8 * block + i of the super-block; the block is known only at run time.
  V v = add(mul(blockInSuper, 8), index(i)), five = index(5);
  V at = add(codeBase, add(mul(arith::DivUIOp::create(b, loc, v, five), 64), index(part * width)));
  V power = memref::LoadOp::create(b, loc, tile::powersOfThree(b, loc), ValueRange{arith::RemUIOp::create(b, loc, v, five)});
  VectorType words = vec(width / 2, i16);
  V times = vector::BroadcastOp::create(b, loc, words, arith::TruncIOp::create(b, loc, i16, power));
  V raw = vector::BitCastOp::create(b, loc, words, bytes(at, width));
  V low = constant(words, 0xff), eight = constant(words, 8), three = constant(words, 3);
  // Both bytes of a word: (byte * 3^n mod 256) * 3, whose bits 8.. are the digit.
  auto tripled = [&](V byte) -> V {
    V rest = arith::AndIOp::create(b, loc, arith::MulIOp::create(b, loc, byte, times), low);
    return arith::MulIOp::create(b, loc, rest, three);
  };
  V even = arith::ShRUIOp::create(b, loc, tripled(arith::AndIOp::create(b, loc, raw, low)), eight);
  V odd = arith::AndIOp::create(b, loc, tripled(arith::ShRUIOp::create(b, loc, raw, eight)), constant(words, 0xff00));
  return vector::BitCastOp::create(b, loc, vec(width, i8), V(arith::OrIOp::create(b, loc, even, odd)));
}

// ---- grids ---------------------------------------------------------------------------------------------------------

Value BlockDecoder::field(const module::SideField &f, unsigned n) {
  VectorType ints = vec(16, i32);
  unsigned bit = f.first + n * f.stride, before = 0; // bytes of earlier planes
  for (unsigned bytesOfPlane : {4, 2, 1}) {
    if (!(layout.grid.sideBytes & bytesOfPlane))
      continue;
    if (bit >= 8 * (before + bytesOfPlane)) {
      before += bytesOfPlane;
      continue;
    }
    V &plane = sidePlanes[bytesOfPlane];
    if (!plane) {
      V raw = bytes(add(codeBase, index(layout.indexBytes() + 16 * before)), 16 * bytesOfPlane);
      raw = vector::BitCastOp::create(b, loc, vec(16, b.getIntegerType(8 * bytesOfPlane)), raw);
      plane = bytesOfPlane == 4 ? raw : V(arith::ExtUIOp::create(b, loc, ints, raw));
    }
    unsigned shift = bit - 8 * before;
    V v = plane;
    if (shift)
      v = arith::ShRUIOp::create(b, loc, v, constant(ints, shift));
    if (shift + f.bits < 8 * bytesOfPlane)
      v = arith::AndIOp::create(b, loc, v, constant(ints, (int64_t(1) << f.bits) - 1));
    return v;
  }
  llvm_unreachable("a field lies in a plane");
}

Value BlockDecoder::entry(unsigned n) {
  V &number = entries[n];
  if (number)
    return number;
  VectorType ints = vec(16, i32);
  V &words = indexPlanes[n / 4];
  if (!words)
    words = vector::BitCastOp::create(b, loc, ints, bytes(add(codeBase, index(64 * (n / 4))), 64));
  number = words;
  if (n % 4)
    number = arith::ShRUIOp::create(b, loc, number, constant(ints, 8 * (n % 4)));
  if (n % 4 != 3)
    number = arith::AndIOp::create(b, loc, number, constant(ints, 0xff));
  if (layout.grid.high.bits)
    number = arith::OrIOp::create(b, loc, number, arith::ShLIOp::create(b, loc, field(layout.grid.high, n), constant(ints, 8)));
  return number;
}

Value BlockDecoder::signWords() {
  if (signs)
    return signs;
  VectorType ints = vec(16, i32);
  module::SideField word = layout.grid.signs;
  word.bits *= 4;
  signs = field(word, 0);
  if (layout.grid.signs.bits == 8)
    return signs;
  // Four runs of seven bits to the low bits of bytes; the top bit of each makes the number of bits even.
  V spread;
  for (int byte = 0; byte < 4; ++byte) {
    V run = arith::AndIOp::create(b, loc, signs, constant(ints, int64_t(0x7f) << (7 * byte)));
    if (byte)
      run = arith::ShLIOp::create(b, loc, run, constant(ints, byte));
    spread = spread ? V(arith::OrIOp::create(b, loc, spread, run)) : run;
  }
  V parity = spread; // of each byte, in its lowest bit; above it is what crossed bytes
  for (int n : {4, 2, 1})
    parity = arith::XOrIOp::create(b, loc, parity, arith::ShRUIOp::create(b, loc, parity, constant(ints, n)));
  parity = arith::AndIOp::create(b, loc, parity, constant(ints, 0x01010101));
  return signs = arith::OrIOp::create(b, loc, spread, arith::ShLIOp::create(b, loc, parity, constant(ints, 7)));
}

Value BlockDecoder::gridDwords(unsigned i, unsigned part) {
  unsigned dwords = layout.grid.columns / 4, rows = width / 4; // of an entry; of a part
  V &found = gathered[{i / dwords, part}];
  if (!found) {
    VectorType type = vec(rows, b.getIntegerType(32 * dwords));
    V table = tile::codebook(b, loc, element);
    found = vector::GatherOp::create(b, loc, type, table, ValueRange{index(0)}, rowsOf(entry(i / dwords), part),
                                     constant(vec(rows, b.getI1Type()), 1), constant(type, 0));
  }
  if (dwords == 1)
    return found;
  SmallVector<int64_t> picks;
  for (int64_t l = 0; l < rows; ++l)
    picks.push_back(2 * l + i % 2);
  V both = vector::BitCastOp::create(b, loc, vec(2 * rows, i32), found);
  return vector::ShuffleOp::create(b, loc, both, both, picks);
}

Value BlockDecoder::gridCodes(unsigned i, unsigned part) {
  VectorType ints = vec(width / 4, i32), own = vec(width, i8);
  V code = vector::BitCastOp::create(b, loc, own, gridDwords(i, part));
  if (layout.grid.signs.bits) {
    // The byte with the signs of columns 8 (i / 2) .. to all four, then one bit for each.
    SmallVector<int64_t> picks;
    for (int64_t l = 0; l < width; ++l)
      picks.push_back(l / 4 * 4 + i / 2);
    V words = vector::BitCastOp::create(b, loc, own, rowsOf(signWords(), part));
    V pattern = vector::BitCastOp::create(b, loc, own, constant(ints, i % 2 ? 0x80402010 : 0x08040201));
    V bits = arith::AndIOp::create(b, loc, vector::ShuffleOp::create(b, loc, words, words, picks), pattern);
    V negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, bits, pattern);
    code = arith::SelectOp::create(b, loc, negative, arith::SubIOp::create(b, loc, constant(own, 0), code), code);
  }
  if (layout.grid.delta.bits) {
    V bit = rowsOf(field(layout.grid.delta, i / 2), part);
    V minus = arith::SubIOp::create(b, loc, constant(ints, 0), bit);
    V delta = arith::OrIOp::create(b, loc, minus, constant(ints, 0x01010101)); // bytes of 1 or -1
    code = arith::AddIOp::create(b, loc, code, V(vector::BitCastOp::create(b, loc, own, delta)));
  }
  return code;
}

// ---- values --------------------------------------------------------------------------------------------------------

Value BlockDecoder::column(unsigned c) {
  if (layout.isFloat) {
    int64_t size = layout.bits / 8;
    V raw = bytes(add(codeBase, index(c * 16 * size)), 16 * size);
    if (size == 4)
      return vector::BitCastOp::create(b, loc, vec(16, f32), raw);
    Type half = StringRef(layout.name) == "bf16" ? Type(b.getBF16Type()) : Type(b.getF16Type());
    return arith::ExtFOp::create(b, loc, vec(16, f32), V(vector::BitCastOp::create(b, loc, vec(16, half), raw)));
  }
  VectorType ints = vec(16, i32);
  unsigned i = c / 4, byte = c % 4;
  SmallVector<V> dwords;
  for (unsigned part = 0; part < parts; ++part)
    dwords.push_back(vector::BitCastOp::create(b, loc, vec(width / 4, i32), codes(i, part)));
  V v = sixteenRows(dwords);
  if (layout.hasSignedCodes()) {
    if (byte < 3)
      v = arith::ShLIOp::create(b, loc, v, constant(ints, 24 - 8 * byte));
    v = arith::ShRSIOp::create(b, loc, v, constant(ints, 24));
  } else {
    if (byte)
      v = arith::ShRUIOp::create(b, loc, v, constant(ints, 8 * byte));
    v = arith::AndIOp::create(b, loc, v, constant(ints, 0xff));
  }
  if (layout.zero)
    v = arith::SubIOp::create(b, loc, v, constant(ints, layout.zero));
  V value = toFloat(v), scale = scaleOf(c / 16);
  if (V more = addend(c / 16))
    return math::FmaOp::create(b, loc, value, scale, more);
  return arith::MulFOp::create(b, loc, value, scale);
}

} // namespace g4::cpu
