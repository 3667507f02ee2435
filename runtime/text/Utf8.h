/// Strict UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace g4::text {

struct Utf8Prefix {
  size_t bytes;  ///< of the sequence, or of the part of it that is there; 0 if the first byte can begin none
  bool complete; ///< the sequence is whole and valid
  bool open;     ///< the bytes end inside a sequence that more bytes could still complete
};

/// Looks at the sequence at the start of `bytes`, which is not empty. When the sequence is broken, `bytes`
/// counts the longest part that could have begun a valid one, which is what one U+FFFD replaces.
constexpr Utf8Prefix readUtf8(std::string_view bytes) {
  const uint8_t lead = uint8_t(bytes[0]);
  if (lead < 0x80)
    return {1, true, false};
  if (lead < 0xc2 || lead > 0xf4)
    return {0, false, false};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {i, false, true};
    uint8_t low = 0x80, high = 0xbf;
    if (i == 1) { // the second byte rules out overlong forms, surrogates and too large values
      low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    }
    const uint8_t byte = uint8_t(bytes[i]);
    if (byte < low || byte > high)
      return {i, false, false};
  }
  return {length, true, false};
}

} // namespace g4::text
