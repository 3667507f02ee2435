// Single elements of GGUF rows, which tables (exec::Storage::table) are stored as. Scalars: a row is read once a step.
#include "compiler/import/gguf/Gguf.h"
#include "dialects/tile/Codebooks.h"
#include "passes/lower/TileBuilder.h"

using namespace mlir;

namespace g4 {
namespace {

using E = gguf::ElementType;
using V = Value;

/// One element: column `c` of the block that starts at byte `block`. Indices are index, codes and fields i32.
class Element {
public:
  Element(TileBuilder &t, E element, V table, V rowStart, V column)
      : t(t), element(element), info(*gguf::typeInfoByName(gguf::stringifyElementType(element))), table(table),
        row(rowStart), c(t.rem(column, t.index(info.blockElements))),
        block(t.add(rowStart, t.mul(t.div(column, t.index(info.blockElements)), t.index(info.blockBytes)))) {}

  V plain(Type type) { return loadAs(block, type); }
  V q8();
  V nibbles();
  V pairsAndFives();  ///< q4_k, q5_k
  V q2k();
  V q3k();
  V q6k();
  V iq4xs();
  V mxfp4();
  V nvfp4(V rowScale);
  V ternary();
  V bits();           ///< q1_0, q2_0, tq2_0
  V iq2();
  V iq3();
  V iq1();

private:
  // Where and what.
  V at(int64_t n) { return t.index(n); }
  V at(int64_t n, V more) { return t.add(t.index(n), more); }
  V div(V x, int64_t n) { return t.div(x, t.index(n)); }
  V rem(V x, int64_t n) { return t.rem(x, t.index(n)); }
  V times(V x, int64_t n) { return t.mul(x, t.index(n)); }
  V toI32(V x) { return arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), x); }
  V toFloat(V x) { return arith::SIToFPOp::create(t.b, t.loc, t.b.getF32Type(), x); }
  V asFloat(V x) { return arith::BitcastOp::create(t.b, t.loc, t.b.getF32Type(), x); }

  V byte(V offset) { return arith::ExtUIOp::create(t.b, t.loc, t.b.getI32Type(), t.load(table, {t.add(block, offset)})); }
  V signedByte(V offset) { return arith::ExtSIOp::create(t.b, t.loc, t.b.getI32Type(), t.load(table, {t.add(block, offset)})); }
  V word(V offset, unsigned bits) {
    V v = loadBits(t.add(block, offset), t.b.getIntegerType(bits));
    return bits == 32 ? v : V(arith::ExtUIOp::create(t.b, t.loc, t.b.getI32Type(), v));
  }
  V half(int64_t offset) { return loadAs(t.add(block, at(offset)), t.b.getF16Type()); }
  V loadBits(V offset, Type type) {
    int64_t bytes = type.getIntOrFloatBitWidth() / 8;
    V raw = vector::LoadOp::create(t.b, t.loc, VectorType::get({bytes}, t.b.getI8Type()), table, ValueRange{offset});
    return vector::ExtractOp::create(t.b, t.loc, vector::BitCastOp::create(t.b, t.loc, VectorType::get({1}, type), raw), 0);
  }
  V loadAs(V offset, Type type) {
    V v = loadBits(offset, type);
    return type.isF32() ? v : V(arith::ExtFOp::create(t.b, t.loc, t.b.getF32Type(), v));
  }

  V shiftRight(V v, V n) { return arith::ShRUIOp::create(t.b, t.loc, v, n); }
  V shiftLeft(V v, V n) { return arith::ShLIOp::create(t.b, t.loc, v, n); }
  V either(V x, V y) { return arith::OrIOp::create(t.b, t.loc, x, y); }
  V masked(V v, int32_t mask) { return arith::AndIOp::create(t.b, t.loc, v, t.i32(mask)); }
  /// Field `n`, an index, of fields of `width` bits.
  V field(V v, V n, int64_t width) { return masked(shiftRight(v, toI32(times(n, width))), (1 << width) - 1); }
  V shl(V v, int32_t n) { return shiftLeft(v, t.i32(n)); }

  /// Entry `n` of the type's table.
  V fromTable(V n) { return t.load(tile::codebook(t.b, t.loc, element), {t.toIndex(n)}); }
  /// The nibble of column `c` of 2 n: low halves first.
  V nibble(V first, V column, int64_t n) { return field(byte(t.add(first, rem(column, n))), div(column, n), 4); }
  /// 2-bit codes, 128 columns in 32 bytes.
  V pair(int64_t first) {
    V place = at(first, t.add(times(div(c, 128), 32), rem(c, 32)));
    return field(byte(place), div(rem(c, 128), 32), 2);
  }
  /// A byte of a grid's entry of `length` values, signed, with the sign at bit c % 8 of `signs` if there are any.
  V gridValue(V number, int64_t length, V signs);
  V gridScale(V d, V field) {
    float unit = gguf::getPackedLayout(element).grid.unit;
    return t.mulf(t.mulf(d, toFloat(either(shl(field, 1), t.i32(1)))), t.f32(unit));
  }
  /// Eight signs from the seven that are stored.
  V evenSigns(V seven) {
    V count = math::CtPopOp::create(t.b, t.loc, seven);
    return either(seven, shl(masked(count, 1), 7));
  }

  TileBuilder &t;
  E element;
  const gguf::TypeInfo &info;
  V table, row, c, block;
};

V Element::q8() { return t.mulf(toFloat(signedByte(at(2, c))), half(0)); }

V Element::nibbles() {
  // d [m] [5th bits: 32] nibbles
  bool hasMin = element == E::kQ4_1 || element == E::kQ5_1, five = element == E::kQ5_0 || element == E::kQ5_1;
  int64_t codes = 2 + (hasMin ? 2 : 0) + (five ? 4 : 0);
  V code = nibble(at(codes), c, 16);
  if (element == E::kIQ4_NL)
    return t.mulf(toFloat(fromTable(code)), half(0));
  if (five)
    code = either(code, shl(field(byte(at(codes - 4, div(c, 8))), rem(c, 8), 1), 4));
  if (hasMin)
    return t.fma(toFloat(code), half(0), half(2));
  return t.mulf(toFloat(t.sub(code, t.i32(five ? 16 : 8))), half(0));
}

V Element::pairsAndFives() {
  // d, dmin, 12 bytes of 6-bit (scale, min) pairs for 8 blocks of 32, [5th bits: 32], nibbles: 4 x 32 bytes.
  bool five = element == E::kQ5_K;
  V j = div(c, 32), in32 = rem(c, 32), j4 = rem(j, 4);
  V low = t.compare(arith::CmpIPredicate::ult, j, t.index(4));
  V s0 = byte(at(4, j4)), m0 = byte(at(8, j4)), mix = byte(at(12, j4));
  auto merge = [&](V nibble, V top) { return either(nibble, shl(shiftRight(top, t.i32(6)), 4)); };
  V scale = t.select(low, masked(s0, 63), merge(masked(mix, 15), s0));
  V min = t.select(low, masked(m0, 63), merge(shiftRight(mix, t.i32(4)), m0));
  V code = nibble(at(five ? 48 : 16, times(div(j, 2), 32)), rem(c, 64), 32);
  if (five)
    code = either(code, shl(field(byte(at(16, in32)), j, 1), 4));
  return t.subf(t.mulf(t.mulf(half(0), toFloat(scale)), toFloat(code)), t.mulf(half(2), toFloat(min)));
}

V Element::q2k() {
  // 16 x (scale, min) nibbles, codes 64, d, dmin
  V both = byte(div(c, 16));
  V scale = t.mulf(half(80), toFloat(masked(both, 15)));
  return t.subf(t.mulf(scale, toFloat(pair(16))), t.mulf(half(82), toFloat(shiftRight(both, t.i32(4)))));
}

V Element::q3k() {
  // third bits 32, codes 64, scales: 16 low nibbles in 8 bytes and 16 high pairs in 4, d
  V code = either(pair(32), shl(field(byte(rem(c, 32)), div(c, 32), 1), 2));
  V j = div(c, 16);
  V scale = either(field(byte(at(96, rem(j, 8))), div(j, 8), 4), shl(field(byte(at(104, rem(j, 4))), div(j, 4), 2), 4));
  return t.mulf(t.mulf(half(108), toFloat(t.sub(scale, t.i32(32)))), toFloat(t.sub(code, t.i32(4))));
}

V Element::q6k() {
  // ql 128, qh 64, scales 16 x i8, d. Halves of 128 columns; in each, four runs of 32.
  V half128 = div(c, 128), run = div(rem(c, 128), 32), in32 = rem(c, 32);
  V low = byte(t.add(times(half128, 64), t.add(times(rem(run, 2), 32), in32)));
  V high = byte(at(128, t.add(times(half128, 32), in32)));
  V code = either(field(low, div(run, 2), 4), shl(field(high, run, 2), 4));
  return t.mulf(t.mulf(half(208), toFloat(signedByte(at(192, div(c, 16))))), toFloat(t.sub(code, t.i32(32))));
}

V Element::iq4xs() {
  // d, high pairs 2, low nibbles 4, codes 128
  V j = div(c, 32);
  V scale = either(field(byte(at(4, div(j, 2))), rem(j, 2), 4), shl(field(byte(at(2, div(j, 4))), rem(j, 4), 2), 4));
  V code = fromTable(nibble(at(8, times(j, 16)), rem(c, 32), 16));
  return t.mulf(t.mulf(half(0), toFloat(t.sub(scale, t.i32(32)))), toFloat(code));
}

V Element::mxfp4() {
  // exponent, nibbles. Half of 2^(e - 127): bits (e - 1) << 23, but subnormal below 2.
  V e = byte(at(0)), one = t.i32(1);
  V isNormal = t.compare(arith::CmpIPredicate::ugt, e, one);
  V normal = shl(t.sub(e, one), 23), subnormal = shiftLeft(t.i32(0x00200000), e);
  return t.mulf(asFloat(t.select(isNormal, normal, subnormal)), toFloat(fromTable(nibble(at(1), c, 16))));
}

V Element::nvfp4(V rowScale) {
  // 4 scales, nibbles of 16 columns in 8 bytes. The scale's bits as a float's are it times 2^-120; half of it counts.
  V j = div(c, 16), scale = byte(j);
  V isNan = t.compare(arith::CmpIPredicate::eq, scale, t.i32(0x7f));
  V bits = shl(t.select(isNan, t.i32(0), masked(scale, 0x7f)), 20);
  V value = t.mulf(t.mulf(asFloat(bits), t.f32(0x1p119f)), loadAs(rowScale, t.b.getF32Type()));
  return t.mulf(value, toFloat(fromTable(nibble(at(4, times(j, 8)), rem(c, 16), 8))));
}

V Element::ternary() {
  // 5 digits a byte for 160 columns in 32 bytes and 80 in 16, 4 digits for 16 in 4, d
  auto below = [&](int64_t n) { return t.compare(arith::CmpIPredicate::ult, c, t.index(n)); };
  auto place = [&](int64_t firstByte, V column, int64_t bytes) {
    return std::pair(at(firstByte, rem(column, bytes)), div(column, bytes));
  };
  auto [at0, digit0] = place(0, c, 32);
  auto [at1, digit1] = place(32, t.sub(c, t.index(160)), 16);
  auto [at2, digit2] = place(48, t.sub(c, t.index(240)), 4);
  auto pick = [&](V x0, V x1, V x2) { return t.select(below(160), x0, t.select(below(240), x1, x2)); };
  V power = t.load(tile::powersOfThree(t.b, t.loc), {pick(digit0, digit1, digit2)});
  V rest = masked(t.mul(byte(pick(at0, at1, at2)), power), 0xff);
  V digit = shiftRight(t.mul(rest, t.i32(3)), t.i32(8));
  return t.mulf(toFloat(t.sub(digit, t.i32(1))), half(52));
}

V Element::bits() {
  V code;
  if (element == E::kTQ2_0)
    code = pair(0);
  else if (element == E::kQ2_0)
    code = field(byte(at(2, div(c, 4))), rem(c, 4), 2);
  else
    code = shl(field(byte(at(2, div(c, 8))), rem(c, 8), 1), 1);
  return t.mulf(toFloat(t.sub(code, t.i32(1))), half(element == E::kTQ2_0 ? 64 : 0));
}

V Element::gridValue(V number, int64_t length, V signs) {
  V entry = fromTable(number);
  V down = arith::IndexCastOp::create(t.b, t.loc, entry.getType(), times(rem(c, length), 8));
  V byte = arith::TruncIOp::create(t.b, t.loc, t.b.getI8Type(), shiftRight(entry, down));
  V value = arith::ExtSIOp::create(t.b, t.loc, t.b.getI32Type(), byte);
  if (!signs)
    return value;
  V negative = t.compare(arith::CmpIPredicate::ne, field(signs, rem(c, 8), 1), t.i32(0));
  return t.select(negative, t.sub(t.i32(0), value), value);
}

V Element::iq2() {
  V number, signs, scale, n = rem(div(c, 8), 4), j = div(c, 32), eighth = div(c, 8);
  if (element == E::kIQ2_XXS) { // d; for each 32: four numbers, then 4 x 7 signs and a scale
    V place = times(j, 8), side = word(at(6, place), 32);
    number = byte(at(2, t.add(place, n)));
    signs = evenSigns(field(side, n, 7));
    scale = shiftRight(side, t.i32(28));
  } else if (element == E::kIQ2_XS) { // d; for each 8: number 9, signs 7; scales of 16
    V both = word(at(2, times(eighth, 2)), 16);
    number = masked(both, 511);
    signs = evenSigns(shiftRight(both, t.i32(9)));
    scale = field(byte(at(66, j)), div(rem(c, 32), 16), 4);
  } else { // iq2_s: d, low bytes 32, signs 32, high pairs 8, scales of 16
    number = either(byte(at(2, eighth)), shl(field(byte(at(66, j)), n, 2), 8));
    signs = byte(at(34, eighth));
    scale = field(byte(at(74, j)), div(rem(c, 32), 16), 4);
  }
  return t.mulf(gridScale(half(0), scale), toFloat(gridValue(number, 8, signs)));
}

V Element::iq3() {
  V number = byte(at(2, div(c, 4))), signs, scale, j = div(c, 32);
  if (element == E::kIQ3_XXS) { // d, numbers 64; for each 32: 4 x 7 signs and a scale
    V side = word(at(66, times(j, 4)), 32);
    signs = evenSigns(field(side, rem(div(c, 8), 4), 7));
    scale = shiftRight(side, t.i32(28));
  } else { // iq3_s: d, low bytes 64, ninth bits 8, signs 32, scales of 32
    number = either(number, shl(field(byte(at(66, j)), div(rem(c, 32), 4), 1), 8));
    signs = byte(at(74, div(c, 8)));
    scale = field(byte(at(106, div(c, 64))), rem(j, 2), 4);
  }
  return t.mulf(gridScale(half(0), scale), toFloat(gridValue(number, 4, signs)));
}

V Element::iq1() {
  // Grid values are eighths, and so is the shift by one.
  V number, shift, scale, d, eighth = div(c, 8), n = rem(eighth, 4);
  if (element == E::kIQ1_S) { // d, low bytes 32; for each 32: 4 x 3 high bits, a scale, a shift
    V side = word(at(34, times(div(c, 32), 2)), 16);
    number = either(byte(at(2, eighth)), shl(field(side, n, 3), 8));
    shift = shiftRight(side, t.i32(15));
    scale = masked(shiftRight(side, t.i32(12)), 7);
    d = half(0);
  } else { // iq1_m: low bytes 32, nibbles 16 (3 high bits, a shift), 4 words of 4 scales and a quarter of d
    V nibble = field(byte(at(32, div(c, 16))), rem(eighth, 2), 4);
    number = either(byte(eighth), shl(masked(nibble, 7), 8));
    shift = shiftRight(nibble, t.i32(3));
    scale = field(word(at(48, times(div(c, 64), 2)), 16), div(rem(c, 64), 16), 3);
    V bits = t.i32(0);
    for (int64_t i = 0; i < 4; ++i)
      bits = either(bits, shl(shiftRight(word(at(48 + 2 * i), 16), t.i32(12)), 4 * i));
    V narrow = arith::TruncIOp::create(t.b, t.loc, t.b.getI16Type(), bits);
    d = arith::ExtFOp::create(t.b, t.loc, t.b.getF32Type(),
                              V(arith::BitcastOp::create(t.b, t.loc, t.b.getF16Type(), narrow)));
  }
  V one = t.sub(t.i32(1), shl(shift, 1)); // 1 or -1
  return t.mulf(gridScale(d, scale), toFloat(t.add(gridValue(number, 8, {}), one)));
}

} // namespace

Value TileBuilder::loadTable(gguf::ElementType element, V table, V rowStart, V column, int64_t columns) {
  Element e(*this, element, table, rowStart, column);
  switch (element) {
  case E::kF32:
    return e.plain(b.getF32Type());
  case E::kF16:
    return e.plain(b.getF16Type());
  case E::kBF16:
    return e.plain(b.getBF16Type());
  case E::kQ8_0:
    return e.q8();
  case E::kQ4_0:
  case E::kQ4_1:
  case E::kQ5_0:
  case E::kQ5_1:
  case E::kIQ4_NL:
    return e.nibbles();
  case E::kQ2_K:
    return e.q2k();
  case E::kQ3_K:
    return e.q3k();
  case E::kQ4_K:
  case E::kQ5_K:
    return e.pairsAndFives();
  case E::kQ6_K:
    return e.q6k();
  case E::kIQ4_XS:
    return e.iq4xs();
  case E::kMXFP4:
    return e.mxfp4();
  case E::kNVFP4: // the row's scale follows its blocks
    return e.nvfp4(add(rowStart, index(exec::tableRowBytes(element, columns) - 4)));
  case E::kTQ1_0:
    return e.ternary();
  case E::kTQ2_0:
  case E::kQ1_0:
  case E::kQ2_0:
    return e.bits();
  case E::kIQ2_XXS:
  case E::kIQ2_XS:
  case E::kIQ2_S:
    return e.iq2();
  case E::kIQ3_XXS:
  case E::kIQ3_S:
    return e.iq3();
  case E::kIQ1_S:
  case E::kIQ1_M:
    return e.iq1();
  }
  llvm_unreachable("every element type is listed");
}

} // namespace g4
