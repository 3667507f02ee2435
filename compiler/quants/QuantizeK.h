/// The encoders of the K formats, for Quantize.cpp. Each takes 256 values, their importance (null: all alike) and the
/// place of one block.
#pragma once

#include <cstdint>

namespace g4::quants {

void q4_k(const float *x, const float *w, uint8_t *out);
void q5_k(const float *x, const float *w, uint8_t *out);
void q6_k(const float *x, const float *w, uint8_t *out);

} // namespace g4::quants
