#include "runtime/module/Writer.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Guard.h"
#include "runtime/base/Hash.h"
#include "runtime/base/Text.h"
#include "runtime/module/Format.h"
#include "runtime/module/Verifier.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace g4::module {

struct Writer::Impl {
  std::unique_ptr<AtomicFile> file;
  std::vector<std::unique_ptr<fb::SegmentT>> segments;
  uint64_t end = kSegmentAlignment; ///< of what was written, from the start of the file
  bool open = false;                ///< a segment is
  bool finished = false;
  Hasher hasher; ///< of the open segment

  Status add(fb::SegmentKind kind, std::string_view name) {
    if (open || finished)
      return internalError("a segment starts before the last one ended");
    for (const auto &segment : segments)
      if (segment->kind == kind && segment->name == name)
        return internalError("two segments are called " + quotedName(name));
    auto segment = std::make_unique<fb::SegmentT>();
    segment->kind = kind;
    segment->name = std::string(name);
    segments.push_back(std::move(segment));
    return {};
  }
};

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;

Result<std::unique_ptr<Writer>> Writer::create(const std::string &path) {
  return guarded([&]() -> Result<std::unique_ptr<Writer>> {
    auto impl = std::make_unique<Impl>();
    G4_ASSIGN_OR_RETURN(impl->file, AtomicFile::create(path));
    return std::unique_ptr<Writer>(new Writer(std::move(impl)));
  });
}

Result<uint32_t> Writer::beginSegment(fb::SegmentKind kind, std::string_view name) {
  return guarded([&]() -> Result<uint32_t> {
    G4_RETURN_IF_ERROR(impl_->add(kind, name));
    impl_->end = alignUp(impl_->end, kSegmentAlignment);
    impl_->segments.back()->offset = impl_->end;
    impl_->hasher = Hasher();
    impl_->open = true;
    return static_cast<uint32_t>(impl_->segments.size() - 1);
  });
}

Status Writer::append(std::span<const std::byte> bytes) {
  return guarded([&]() -> Status {
    if (!impl_->open)
      return internalError("bytes outside a segment");
    G4_RETURN_IF_ERROR(impl_->file->writeAt(impl_->end, bytes));
    impl_->hasher.update(bytes);
    impl_->end += bytes.size();
    return {};
  });
}

Result<uint64_t> Writer::align(uint64_t alignment) {
  return guarded([&]() -> Result<uint64_t> {
    if (!impl_->open || alignment == 0)
      return internalError("alignment outside a segment");
    static constexpr std::array<std::byte, 4096> kZeros{};
    for (uint64_t gap = alignUp(segmentSize(), alignment) - segmentSize(); gap > 0;) {
      const auto piece = std::span(kZeros).first(std::min<uint64_t>(gap, kZeros.size()));
      G4_RETURN_IF_ERROR(append(piece));
      gap -= piece.size();
    }
    return segmentSize();
  });
}

uint64_t Writer::segmentSize() const { return impl_->open ? impl_->end - impl_->segments.back()->offset : 0; }

Status Writer::endSegment() {
  return guarded([&]() -> Status {
    if (!impl_->open)
      return internalError("no segment to end");
    fb::SegmentT &segment = *impl_->segments.back();
    segment.size = segmentSize();
    segment.hash = impl_->hasher.digest();
    impl_->open = false;
    return {};
  });
}

Result<uint32_t> Writer::addSegment(fb::SegmentKind kind, std::string_view name,
                                    std::span<const std::byte> bytes) {
  G4_ASSIGN_OR_RETURN(uint32_t index, beginSegment(kind, name));
  G4_RETURN_IF_ERROR(append(bytes));
  G4_RETURN_IF_ERROR(endSegment());
  return index;
}

Result<uint32_t> Writer::addMissingWeights(std::string_view name, uint64_t size) {
  return guarded([&]() -> Result<uint32_t> {
    G4_RETURN_IF_ERROR(impl_->add(fb::SegmentKind::weights, name));
    impl_->segments.back()->size = size; // offset and hash stay 0: there are no bytes
    return static_cast<uint32_t>(impl_->segments.size() - 1);
  });
}

Status Writer::finish(fb::ModuleT &module) {
  return guarded([&]() -> Status {
    if (impl_->open || impl_->finished)
      return internalError("finished twice or inside a segment");
    impl_->finished = true;
    module.segments = std::move(impl_->segments);

    flatbuffers::FlatBufferBuilder builder;
    fb::FinishModuleBuffer(builder, fb::Module::Pack(builder, &module));
    const std::span header = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));

    Prelude prelude{};
    std::memcpy(prelude.magic, kMagic, sizeof kMagic);
    prelude.formatVersion = kFormatVersion;
    prelude.abiVersion = kAbiVersion;
    prelude.headerOffset = alignUp(impl_->end, kSegmentAlignment);
    prelude.headerSize = header.size();
    prelude.headerHash = hash64(header);
    prelude.fileSize = prelude.headerOffset + header.size();

    // Better a failed compilation than an artifact that no loader accepts.
    if (auto root = verifyHeader(header, prelude.headerOffset, prelude.fileSize); !root.ok()) {
      const Code code = root.status().code();
      return {code == Code::kResourceExhausted ? code : Code::kInternal,
              "module: " + root.status().message()};
    }
    G4_RETURN_IF_ERROR(impl_->file->writeAt(prelude.headerOffset, header));
    G4_RETURN_IF_ERROR(impl_->file->writeAt(0, std::as_bytes(std::span(&prelude, 1))));
    return impl_->file->commit();
  });
}

} // namespace g4::module
