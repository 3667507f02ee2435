/// A loaded .g4m artifact: typed access to its header and the bytes of its segments.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/module/module_generated.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace g4::module {

/// Immutable after loading; share freely between threads. Owns the mapping: spans and header pointers live as
/// long as it does. Every index, offset, size and count in `root()` was checked (Verifier.h).
/// Never null: `facts()` and its `layers()`, `segments()`, `variants()`, `weights()`, `kv_layers()`, `kernels()`,
/// `programs()`, a program's lists, a dispatch's `bindings()` and `grid()`, and the names of entries. May be null: all
/// other texts, `sampling()`, the two ropes and their factors, lists of token ids, a weight's `sources()` and
/// `place()`, a variant's `features()`, a dispatch's `taps()`.
///
/// Trust: the header is untrusted input and is verified; a code segment is as trusted as a program.
class Module {
public:
  /// Maps and checks a file. Hashes its header, code and tokenizer; weights only in `verifyWeights`.
  /// Errors: kInvalidArgument (not an artifact, or its header is malformed), kIncompatible (another format or
  /// ABI version: recompile), kDataLoss (truncated or damaged), kResourceExhausted. The message starts with
  /// the path.
  static Result<std::unique_ptr<Module>> load(const std::string &path);
  /// The same for bytes that the caller keeps alive; they start at a multiple of 64.
  static Result<std::unique_ptr<Module>> parse(std::span<const std::byte> bytes);
  ~Module();

  const std::string &path() const; ///< empty after `parse`
  uint64_t fileSize() const;
  uint64_t hash() const; ///< hash64 of the header, which has those of all segments: tells artifacts apart
  const fb::Module &root() const;

  /// Bytes of Module.segments[index]; empty for weights that the file does not hold.
  std::span<const std::byte> segment(uint32_t index) const;
  /// Packed bytes of Module.weights[index]; empty when the file does not hold them.
  std::span<const std::byte> weight(uint32_t index) const;
  /// The tokenizer's tables; empty when there are none.
  std::span<const std::byte> tokenizer() const;
  std::optional<uint32_t> findSegment(fb::SegmentKind kind, std::string_view name) const;
  /// Null when there is no program of that name.
  const fb::Program *findProgram(std::string_view name) const;
  /// Compiled with `--weights=none`: weight segments have a size and no bytes.
  bool weightsMissing() const;

  /// Reads and hashes all weight segments. `progress(done, total)` in bytes, now and then, may be empty; it
  /// must not throw. Errors: kDataLoss naming the segment.
  Status verifyWeights(const std::function<void(uint64_t, uint64_t)> &progress = {}) const;

private:
  struct Impl;
  explicit Module(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::module
