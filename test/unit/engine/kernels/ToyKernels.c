// A toy model whose numbers show at once if a page, a row map or a sequence is wrong.
//
//   x[r]      = token + 1, in all 4 columns
//   K/V       = x, in a sliding layer (window WINDOW) and a global one, 1 head of 4
//   hidden[t] = {sum over the window, sum over all, position, cos of the row's first angle}
//   logits[l] = hidden[0] + SCALE * hidden[1] + weight[v]
//   maxima[l] = the largest of each 8 logits
// All are small integers, so every result is exact in f32, in any order.
#include <stdint.h>

enum { WINDOW = 100, PAGE = 64, DIM = 4, VOCABULARY = 32, BLOCKS_SLIDING = 3, BLOCKS_GLOBAL = 4 };
#ifndef SCALE
#define SCALE 10
#endif

static float *valueAt(float *kv, int32_t page, int32_t slot) {
  return kv + (int64_t)page * 2 * PAGE * DIM + PAGE * DIM + slot * DIM; // behind the page's keys
}

// counts, tokens, positions, sequences, blocks_sliding, blocks_global, kv sliding, kv global, x
void toy_embed(void *const *b, int64_t begin, int64_t end) {
  const int32_t *counts = b[0], *tokens = b[1], *positions = b[2], *sequences = b[3];
  float *x = b[8];
  for (int64_t r = begin; r < end; ++r) {
    const int32_t page = positions[r] / PAGE, slot = positions[r] % PAGE;
    const int32_t sliding = ((const int32_t *)b[4])[sequences[r] * counts[BLOCKS_SLIDING] + page];
    const int32_t global = ((const int32_t *)b[5])[sequences[r] * counts[BLOCKS_GLOBAL] + page];
    for (int d = 0; d < DIM; ++d) {
      x[r * DIM + d] = (float)(tokens[r] + 1);
      valueAt(b[6], sliding, slot)[d] = x[r * DIM + d];
      valueAt(b[7], global, slot)[d] = x[r * DIM + d];
    }
  }
}

static float sum(const int32_t *blocks, float *kv, int32_t from, int32_t to) {
  float total = 0;
  for (int32_t p = from; p <= to; ++p)
    total += valueAt(kv, blocks[p / PAGE], p % PAGE)[0];
  return total;
}

// counts, tail_map, positions, sequences, blocks_sliding, blocks_global, kv sliding, kv global, rope, hidden
void toy_attend(void *const *b, int64_t begin, int64_t end) {
  const int32_t *counts = b[0], *tailMap = b[1], *positions = b[2], *sequences = b[3];
  for (int64_t t = begin; t < end; ++t) {
    const int32_t r = tailMap[t], p = positions[r];
    float *hidden = (float *)b[9] + t * DIM;
    hidden[0] = sum((const int32_t *)b[4] + sequences[r] * counts[BLOCKS_SLIDING], b[6],
                    p >= WINDOW ? p - WINDOW + 1 : 0, p);
    hidden[1] = sum((const int32_t *)b[5] + sequences[r] * counts[BLOCKS_GLOBAL], b[7], 0, p);
    hidden[2] = (float)p;
    hidden[3] = ((const float *)b[8])[r * DIM];
  }
}

// logit_map, hidden, weight, logits, maxima
void toy_logits(void *const *b, int64_t begin, int64_t end) {
  const int32_t *logitMap = b[0];
  const float *weight = b[2];
  for (int64_t l = begin; l < end; ++l) {
    const float *hidden = (const float *)b[1] + logitMap[l] * DIM;
    for (int v = 0; v < VOCABULARY; ++v) {
      const float logit = hidden[0] + SCALE * hidden[1] + weight[v];
      float *largest = (float *)b[4] + l * (VOCABULARY / 8) + v / 8;
      ((float *)b[3])[l * VOCABULARY + v] = logit;
      *largest = v % 8 == 0 || logit > *largest ? logit : *largest;
    }
  }
}

// forced_experts, route, counts: route[r] = the first forced choice of layer 1 for row r, or -1.
void toy_route(void *const *b, int64_t begin, int64_t end) {
  const int32_t *counts = b[2];
  for (int64_t r = begin; r < end; ++r)
    ((int32_t *)b[1])[r] = counts[5] ? ((const int32_t *)b[0])[(1 * 96 + r) * 2] : -1;
}
