/// Writes a .g4m artifact in one pass; layout in Format.h. Used by the compiler: no LLVM here and no runtime.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/module/module_generated.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace g4::module {

/// Segments are added one after another, then `finish` writes the header and puts the file in place.
/// Destroyed earlier, or killed, or out of disk, it leaves nothing behind (details:
/// runtime/base/AtomicFile.h).
///
///   auto writer = Writer::create("model.g4m");
///   auto index = writer->beginSegment(fb::SegmentKind::weights, "cpu");
///   for (...) { offset = writer->align(kDataAlignment); writer->append(bytes); }
///   writer->endSegment();
///   writer->addSegment(fb::SegmentKind::code, "avx2", object);
///   writer->finish(module);
///
/// Memory: one hash state; bytes are written as they are given.
/// Threads: one at a time.
/// Errors of all calls: kResourceExhausted (disk, memory), kInvalidArgument (destination not writable),
/// kInternal (called out of order, or `finish` got a module that its verifier refuses). After an error only
/// destruction is useful.
class Writer {
public:
  static Result<std::unique_ptr<Writer>> create(const std::string &path);
  ~Writer();

  /// Starts a segment and returns its index in Module.segments. (kind, name) is unique in the file.
  Result<uint32_t> beginSegment(fb::SegmentKind kind, std::string_view name);
  /// Appends to the segment that is open. Any size; few large pieces are faster than many small ones.
  Status append(std::span<const std::byte> bytes);
  /// Appends zeros up to a multiple of `alignment` and returns the offset in the segment that was reached.
  Result<uint64_t> align(uint64_t alignment);
  /// Bytes in the open segment so far.
  uint64_t segmentSize() const;
  Status endSegment();

  /// A segment from bytes in memory.
  Result<uint32_t> addSegment(fb::SegmentKind kind, std::string_view name, std::span<const std::byte> bytes);
  /// A weight segment of `size` bytes that the file does not hold; for modules with `weights_missing`.
  Result<uint32_t> addMissingWeights(std::string_view name, uint64_t size);

  /// Completes the file. `module.segments` is replaced by the segments written; everything else is the
  /// caller's.
  Status finish(fb::ModuleT &module);

private:
  struct Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::module
