// Kernels for the device tests; G4_VALUE tells two builds of this file apart.
#include <stdint.h>

// out[0] = G4_VALUE
void which(void *const *buffers, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  *(int32_t *)buffers[0] = G4_VALUE;
}

// out[i] += 1 for every item: shows an item done twice or not at all.
void count(void *const *buffers, int64_t begin, int64_t end) {
  int32_t *out = buffers[0];
  for (int64_t i = begin; i < end; ++i)
    out[i] += 1;
}

// out[i] = in[items - 1 - i] + 1: needs all of in, so it is wrong without a barrier. items is buffers[2][0].
void reverse(void *const *buffers, int64_t begin, int64_t end) {
  const int32_t *in = buffers[0];
  int32_t *out = buffers[1];
  const int64_t items = *(const int64_t *)buffers[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[items - 1 - i] + 1;
}
