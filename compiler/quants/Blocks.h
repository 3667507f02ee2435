/// One decoder per block format; Dequantize.cpp picks. Not for others.
/// Written from the layouts in ggml-common.h. Fields are little-endian; no block is aligned. Values are
/// computed in the order of operations that gguf-py and ggml use, so that they are equal bit for bit.
#pragma once

#include "compiler/quants/Dequantize.h"

namespace g4::quants {

using Bytes = const uint8_t *;
using Decoder = void (*)(Bytes block, float *out);

inline uint16_t read16(Bytes p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
inline uint32_t read32(Bytes p) { return read16(p) | static_cast<uint32_t>(read16(p + 2)) << 16; }
inline float half(Bytes p) { return halfToFloat(read16(p)); }

// SmallBlocks.cpp: blocks of 32 to 128 elements, one scale or one per 16.
void q1_0(Bytes b, float *y);
void q2_0(Bytes b, float *y);
void q4_0(Bytes b, float *y);
void q4_1(Bytes b, float *y);
void q5_0(Bytes b, float *y);
void q5_1(Bytes b, float *y);
void q8_0(Bytes b, float *y);
void iq4_nl(Bytes b, float *y);
void mxfp4(Bytes b, float *y);
void nvfp4(Bytes b, float *y);

// SuperBlocks.cpp: blocks of 256 whose groups have scales of their own, and the ternary ones.
void q2_k(Bytes b, float *y);
void q3_k(Bytes b, float *y);
void q4_k(Bytes b, float *y);
void q5_k(Bytes b, float *y);
void q6_k(Bytes b, float *y);
void tq1_0(Bytes b, float *y);
void tq2_0(Bytes b, float *y);

// CodebookBlocks.cpp: blocks of 256 whose values come from tables.
void iq1_s(Bytes b, float *y);
void iq1_m(Bytes b, float *y);
void iq2_xxs(Bytes b, float *y);
void iq2_xs(Bytes b, float *y);
void iq2_s(Bytes b, float *y);
void iq3_xxs(Bytes b, float *y);
void iq3_s(Bytes b, float *y);
void iq4_xs(Bytes b, float *y);

} // namespace g4::quants
