#include "test/conformance/cpu/KvOracle.h"
#include "runtime/module/StepAbi.h"
#include "test/conformance/cpu/KernelHarness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace g4::conformance {
namespace {

constexpr int64_t kPage = module::kPageTokens, kLanes = 16, kBlock = 32;

template <class T> T read(std::span<const std::byte> page, size_t at) {
  T v;
  std::memcpy(&v, &page[at], sizeof v);
  return v;
}
template <class T> void write(std::span<std::byte> page, size_t at, T v) { std::memcpy(&page[at], &v, sizeof v); }

} // namespace

size_t KvOracle::pageBytes() const {
  return 2 * heads * kPage * (dim * bits() / 8 + (isQuantised() ? dim / kBlock * 2 : 0));
}

size_t KvOracle::codeAt(Kind kind, int64_t head, int64_t slot, int64_t column) const {
  int64_t plane = heads * kPage * dim * bits() / 8, rows = dim; // rows: bytes or elements of a position
  int64_t strip = bits() == 8 ? kBlock : kLanes; // columns of a value that stand together
  if (bits() == 4) {
    column = column / kBlock * 16 + column % 16;
    rows = dim / 2;
  }
  int64_t element = kind == Kind::kKey
                        ? ((head * kPage / kLanes + slot / kLanes) * rows + column) * kLanes + slot % kLanes
                        : head * kPage * rows + (column / strip * kPage + slot) * strip + column % strip;
  return (kind == Kind::kKey ? 0 : plane) + element * std::max<int64_t>(bits() / 8, 1);
}

size_t KvOracle::scaleAt(Kind kind, int64_t head, int64_t slot, int64_t column) const {
  int64_t codes = 2 * heads * kPage * dim * bits() / 8, blocks = dim / kBlock, block = column / kBlock;
  if (kind == Kind::kKey)
    return codes + 2 * (((head * kPage / kLanes + slot / kLanes) * blocks + block) * kLanes + slot % kLanes);
  return codes + 2 * (heads * kPage * blocks + (head * blocks + block) * kPage + slot);
}

void KvOracle::fillNan(std::span<std::byte> pages) const {
  for (size_t i = 0; i < pages.size(); i += bits() == 32 ? 4 : 2)
    if (bits() == 32)
      write(pages, i, NAN);
    else
      write<uint16_t>(pages, i, type == "bf16" ? 0x7fc0 : 0x7e00);
}

int KvOracle::code(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot, int64_t column) const {
  size_t at = codeAt(kind, head, slot, column);
  if (bits() == 8)
    return read<int8_t>(page, at);
  return read<uint8_t>(page, at) >> (column % kBlock < 16 ? 0 : 4) & 15;
}

double KvOracle::scale(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot, int64_t column) const {
  return static_cast<double>(read<_Float16>(page, scaleAt(kind, head, slot, column)));
}

std::vector<double> KvOracle::load(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot) const {
  std::vector<double> x;
  for (int64_t d = 0; d < dim; ++d) {
    size_t at = codeAt(kind, head, slot, d);
    if (isQuantised())
      x.push_back(scale(page, kind, head, slot, d) * (code(page, kind, head, slot, d) - (bits() == 4 ? 8 : 0)));
    else if (type == "f32")
      x.push_back(read<float>(page, at));
    else if (type == "f16")
      x.push_back(static_cast<double>(read<_Float16>(page, at)));
    else
      x.push_back(std::bit_cast<float>(uint32_t(read<uint16_t>(page, at)) << 16));
  }
  return x;
}

void KvOracle::store(std::span<std::byte> page, Kind kind, int64_t head, int64_t slot, std::span<float> x) const {
  for (int64_t d = 0; d < dim; ++d) {
    size_t at = codeAt(kind, head, slot, d);
    if (isQuantised() && d % kBlock == 0) {
      auto largest = *std::max_element(&x[d], &x[d] + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      write(page, scaleAt(kind, head, slot, d), static_cast<_Float16>(bits() == 8 ? std::fabs(largest) / 127 : largest / -8));
    }
    if (isQuantised()) {
      double step = scale(page, kind, head, slot, d), steps = step == 0 ? 0 : std::nearbyint(x[d] / step);
      if (bits() == 8) {
        write<int8_t>(page, at, std::clamp<double>(steps, -127, 127));
      } else {
        unsigned shift = d % kBlock < 16 ? 0 : 4, other = read<uint8_t>(page, at) & (0xf0 >> shift);
        write<uint8_t>(page, at, other | unsigned(std::clamp<double>(steps + 8, 0, 15)) << shift);
      }
    } else if (type == "f32") {
      write(page, at, x[d]);
    } else if (type == "f16") {
      write(page, at, static_cast<_Float16>(x[d]));
    } else {
      write<uint16_t>(page, at, std::bit_cast<uint32_t>(x[d]) >> 16);
    }
  }
  auto held = load(page, kind, head, slot);
  std::copy(held.begin(), held.end(), x.begin());
}

std::vector<double> KvOracle::rotate(std::span<const double> x) const {
  int64_t n = rotationBlock();
  std::vector<double> y(dim);
  for (int64_t i = 0; i < dim; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double v = x[i / n * n + j];
      y[i] += (std::popcount(uint64_t(i % n & j)) % 2 ? -v : v) / std::sqrt(double(n));
    }
  return y;
}

std::vector<double> KvOracle::rotatedBound(std::span<const double> x, std::span<const double> bound) const {
  int64_t n = rotationBlock();
  std::vector<double> result(dim);
  for (int64_t i = 0; i < dim; ++i)
    for (int64_t j = i / n * n; j < i / n * n + n; ++j)
      result[i] += n == 1 ? bound[j] : (bound[j] + gamma(8) * (std::fabs(x[j]) + bound[j])) / std::sqrt(double(n));
  return result;
}

} // namespace g4::conformance
