#include "runtime/module/Module.h"

#include "runtime/base/Guard.h"
#include "runtime/base/Hash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Text.h"
#include "runtime/module/Format.h"
#include "runtime/module/Verifier.h"

#include <algorithm>
#include <cstring>

namespace g4::module {
namespace {

/// Checks everything about the prelude that needs no header.
Status checkPrelude(const Prelude &prelude, uint64_t size) {
  if (std::memcmp(prelude.magic, kMagic, sizeof kMagic) != 0)
    return invalidArgument("not a g4 artifact: wrong magic");
  if (prelude.formatVersion != kFormatVersion)
    return incompatible("format version " + std::to_string(prelude.formatVersion) + ", but this g4 reads " +
                        std::to_string(kFormatVersion) + "; compile the model again");
  if (prelude.abiVersion != kAbiVersion)
    return incompatible("ABI version " + std::to_string(prelude.abiVersion) + ", but this g4 runs " +
                        std::to_string(kAbiVersion) + "; compile the model again");
  if (size < prelude.fileSize)
    return dataLoss("truncated: " + std::to_string(size) + " of " + std::to_string(prelude.fileSize) +
                    " bytes");
  if (size > prelude.fileSize)
    return dataLoss("damaged: " + std::to_string(size) + " bytes, but the file was written with " +
                    std::to_string(prelude.fileSize));
  if (prelude.reserved[0] != 0 || prelude.reserved[1] != 0)
    return dataLoss("damaged: reserved bytes of the prelude are not zero");
  if (prelude.headerOffset < kSegmentAlignment || prelude.headerOffset % kSegmentAlignment != 0)
    return dataLoss("damaged: header offset " + std::to_string(prelude.headerOffset) +
                    " is not a positive multiple of " + std::to_string(kSegmentAlignment));
  if (prelude.headerSize == 0 || prelude.headerSize > kMaxHeaderBytes)
    return dataLoss("damaged: header size " + std::to_string(prelude.headerSize) + " is not in 1.." +
                    std::to_string(kMaxHeaderBytes));
  if (prelude.headerOffset > size || size - prelude.headerOffset != prelude.headerSize)
    return dataLoss("damaged: the header does not end where the file does");
  return {};
}

Status checkHash(const fb::Segment &segment, std::span<const std::byte> bytes) {
  if (hash64(bytes) == segment.hash())
    return {};
  return dataLoss("damaged: hash of segment " + quotedName(segment.name()->string_view()) + " differs");
}

} // namespace

struct Module::Impl {
  std::string path;
  MappedFile file; ///< empty after `parse`
  std::span<const std::byte> bytes;
  const fb::Module *root = nullptr;
  uint64_t hash = 0; ///< of the header

  std::span<const std::byte> segment(const fb::Segment &segment) const {
    // Verified: offset 0 marks weights that are not in the file.
    return segment.offset() == 0 ? std::span<const std::byte>()
                                 : bytes.subspan(segment.offset(), segment.size());
  }

  Status check() {
    Prelude prelude;
    if (bytes.size() < sizeof prelude) {
      const size_t shared = std::min(bytes.size(), sizeof kMagic);
      if (std::memcmp(bytes.data(), kMagic, shared) != 0)
        return invalidArgument("not a g4 artifact: wrong magic");
      return dataLoss("truncated: " + std::to_string(bytes.size()) + " bytes, less than a prelude");
    }
    std::memcpy(&prelude, bytes.data(), sizeof prelude);
    G4_RETURN_IF_ERROR(checkPrelude(prelude, bytes.size()));

    const auto header = bytes.subspan(prelude.headerOffset, prelude.headerSize);
    hash = prelude.headerHash;
    if (hash64(header) != hash)
      return dataLoss("damaged: hash of the header differs");
    G4_ASSIGN_OR_RETURN(root, verifyHeader(header, prelude.headerOffset, prelude.fileSize));
    for (const fb::Segment *s : *root->segments())
      if (s->kind() != fb::SegmentKind::weights)
        G4_RETURN_IF_ERROR(checkHash(*s, segment(*s)));
    return {};
  }
};

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::load(const std::string &path) {
  return guarded([&]() -> Result<std::unique_ptr<Module>> {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    G4_ASSIGN_OR_RETURN(impl->file, MappedFile::open(path));
    impl->bytes = impl->file.bytes();
    G4_RETURN_IF_ERROR(impl->check().withContext(quotedPath(path)));
    return std::unique_ptr<Module>(new Module(std::move(impl)));
  });
}

Result<std::unique_ptr<Module>> Module::parse(std::span<const std::byte> bytes) {
  return guarded([&]() -> Result<std::unique_ptr<Module>> {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kDataAlignment != 0)
      return invalidArgument("an artifact in memory must start at a multiple of 64");
    if (bytes.empty())
      return dataLoss("truncated: no bytes");
    auto impl = std::make_unique<Impl>();
    impl->bytes = bytes;
    G4_RETURN_IF_ERROR(impl->check());
    return std::unique_ptr<Module>(new Module(std::move(impl)));
  });
}

const std::string &Module::path() const { return impl_->path; }
uint64_t Module::fileSize() const { return impl_->bytes.size(); }
uint64_t Module::hash() const { return impl_->hash; }
const fb::Module &Module::root() const { return *impl_->root; }
bool Module::weightsMissing() const { return impl_->root->weights_missing(); }

std::span<const std::byte> Module::segment(uint32_t index) const {
  return impl_->segment(*impl_->root->segments()->Get(index));
}

std::span<const std::byte> Module::weight(uint32_t index) const {
  const fb::Weight &weight = *impl_->root->weights()->Get(index);
  const auto bytes = segment(weight.segment());
  return bytes.empty() ? bytes : bytes.subspan(weight.offset(), weight.size());
}

std::span<const std::byte> Module::tokenizer() const {
  for (const fb::Segment *s : *impl_->root->segments())
    if (s->kind() == fb::SegmentKind::tokenizer)
      return impl_->segment(*s);
  return {};
}

std::optional<uint32_t> Module::findSegment(fb::SegmentKind kind, std::string_view name) const {
  const auto &segments = *impl_->root->segments();
  for (uint32_t i = 0; i < segments.size(); ++i)
    if (segments[i]->kind() == kind && segments[i]->name()->string_view() == name)
      return i;
  return std::nullopt;
}

const fb::Program *Module::findProgram(std::string_view name) const {
  for (const fb::Program *program : *impl_->root->programs())
    if (program->name()->string_view() == name)
      return program;
  return nullptr;
}

Status Module::verifyWeights(const std::function<void(uint64_t, uint64_t)> &progress) const {
  return guarded([&]() -> Status {
    constexpr uint64_t kPiece = uint64_t(16) << 20;
    uint64_t total = 0, done = 0;
    for (const fb::Segment *s : *impl_->root->segments())
      if (s->kind() == fb::SegmentKind::weights)
        total += impl_->segment(*s).size();
    for (const fb::Segment *s : *impl_->root->segments()) {
      if (s->kind() != fb::SegmentKind::weights || s->offset() == 0)
        continue;
      Hasher hasher;
      for (auto rest = impl_->segment(*s); !rest.empty();) {
        const auto piece = rest.first(std::min<uint64_t>(rest.size(), kPiece));
        hasher.update(piece);
        impl_->file.release(piece); // read once: do not let it count as this process's memory
        rest = rest.subspan(piece.size());
        done += piece.size();
        if (progress)
          progress(done, total);
      }
      if (hasher.digest() != s->hash())
        return dataLoss("damaged: hash of segment " + quotedName(s->name()->string_view()) + " differs")
            .withContext(impl_->path.empty() ? "artifact" : quotedPath(impl_->path));
    }
    return {};
  });
}

} // namespace g4::module
