#include "runtime/kv/SavedSequence.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Hash.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>

namespace g4::kv {
namespace {

constexpr char kMagic[8] = {'g', '4', 'k', 'v', 's', 'e', 'q', '\n'};
constexpr uint32_t kVersion = 1;

struct SavedHeader {
  char magic[8];
  uint32_t version;
  uint32_t pageTokens;
  uint32_t window;
  uint32_t layers;
  uint64_t modelHash;
  uint32_t length;
  uint32_t firstSliding; ///< first sliding page that is there
};
static_assert(sizeof(SavedHeader) == 40);

struct LayerRecord {
  uint32_t pageClass;
  uint32_t element;
  uint64_t pageBytes;
};
static_assert(sizeof(LayerRecord) == 16);

LayerRecord recordOf(const LayerStore &layer) {
  return {uint32_t(layer.pageClass), uint32_t(layer.element), layer.pageBytes};
}

/// Writes one piece after another and hashes them.
class HashedWriter {
public:
  explicit HashedWriter(AtomicFile &file) : file_(file) {}
  Status write(std::span<const std::byte> bytes) {
    hasher_.update(bytes);
    offset_ += bytes.size();
    return file_.writeAt(offset_ - bytes.size(), bytes);
  }
  template <class T> Status writeValue(const T &value) { return write(std::as_bytes(std::span(&value, 1))); }
  uint64_t digest() const { return hasher_.digest(); }

private:
  AtomicFile &file_;
  Hasher hasher_;
  uint64_t offset_ = 0;
};

/// Takes the front off bytes that are known to be long enough.
template <class T> T take(std::span<const std::byte> &bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

} // namespace

Status saveSequence(const KvCache &cache, SeqId seq, std::span<const uint64_t> key, uint64_t modelHash,
                    const std::string &path) {
  G4_ASSIGN_OR_RETURN(const uint32_t length, cache.length(seq));
  if (key.size() != length)
    return invalidArgument("a key of " + std::to_string(key.size()) + " elements for a sequence of " +
                           std::to_string(length) + " positions");
  const Geometry &geometry = cache.geometry();
  const uint32_t pages = geometry.pagesOf(length);
  const std::span<const PageId> sliding = cache.blocks(seq, PageClass::kSliding).first(pages);
  uint32_t firstSliding = pages;
  while (firstSliding > 0 && sliding[firstSliding - 1] != kNoPage)
    --firstSliding;

  G4_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  HashedWriter writer(*file);
  SavedHeader header{
      {},        kVersion, geometry.pageTokens, geometry.window, uint32_t(geometry.layers.size()),
      modelHash, length,   firstSliding};
  std::ranges::copy(kMagic, header.magic);
  G4_RETURN_IF_ERROR(writer.writeValue(header));
  for (const LayerStore &layer : geometry.layers)
    G4_RETURN_IF_ERROR(writer.writeValue(recordOf(layer)));
  G4_RETURN_IF_ERROR(writer.write(std::as_bytes(key)));
  for (size_t i = 0; i < geometry.layers.size(); ++i) {
    const PageClass pageClass = geometry.layers[i].pageClass;
    const std::span<const PageId> blocks = cache.blocks(seq, pageClass).first(pages);
    for (PageId page : blocks.subspan(pageClass == PageClass::kSliding ? firstSliding : 0))
      G4_RETURN_IF_ERROR(writer.write(cache.pageData(i, page)));
  }
  G4_RETURN_IF_ERROR(writer.writeValue(writer.digest()));
  return file->commit();
}

Result<SavedSequence> SavedSequence::open(const std::string &path, const Geometry &geometry,
                                          uint64_t modelHash) {
  const auto damaged = [&](const char *what) { return dataLoss(quotedPath(path) + " " + what); };
  const auto other = [&](const char *what) { return incompatible(quotedPath(path) + " " + what); };
  SavedSequence saved;
  G4_ASSIGN_OR_RETURN(saved.file_, MappedFile::open(path));
  std::span<const std::byte> rest = saved.file_.bytes();
  if (!saved.file_.load(rest))
    return damaged("cannot be read");
  if (rest.size() < sizeof kMagic || std::memcmp(rest.data(), kMagic, sizeof kMagic) != 0)
    return damaged("is not a saved sequence");
  if (rest.size() < sizeof(SavedHeader) + sizeof(uint64_t))
    return damaged("is truncated");
  uint64_t hash;
  std::memcpy(&hash, rest.data() + rest.size() - sizeof hash, sizeof hash);
  rest = rest.first(rest.size() - sizeof hash);
  const bool intact = hash == hash64(rest);
  const auto header = take<SavedHeader>(rest);
  if (header.version != kVersion)
    return other("is of another version");
  if (!intact)
    return damaged("is truncated or damaged");
  if (header.modelHash != modelHash)
    return other("was saved with another model");
  if (header.pageTokens != geometry.pageTokens || header.window != geometry.window ||
      header.layers != geometry.layers.size())
    return other("was saved with other K/V pages");

  const uint64_t layers = geometry.layers.size();
  if (rest.size() / sizeof(LayerRecord) < layers)
    return damaged("is too short for its layers");
  for (const LayerStore &layer : geometry.layers) {
    const auto have = take<LayerRecord>(rest);
    const LayerRecord want = recordOf(layer);
    if (have.pageClass != want.pageClass || have.element != want.element || have.pageBytes != want.pageBytes)
      return other("was saved with other K/V pages");
  }
  saved.length_ = header.length;
  saved.firstSliding_ = header.firstSliding;
  saved.last_ = geometry.pagesOf(header.length);
  const bool windowed = geometry.pageBytes(PageClass::kSliding) != 0;
  if (saved.firstSliding_ > (windowed ? geometry.firstPageOfWindow(header.length) : saved.last_))
    return damaged("lacks the window before its end");
  if (rest.size() / sizeof(uint64_t) < header.length)
    return damaged("is too short for its key");
  const auto keyBytes = rest.first(uint64_t(header.length) * sizeof(uint64_t));
  rest = rest.subspan(keyBytes.size());

  uint64_t left = rest.size();
  for (const LayerStore &layer : geometry.layers) {
    const uint64_t pages = saved.pages()[layer.pageClass];
    if (layer.pageBytes != 0 && left / layer.pageBytes < pages)
      return damaged("is too short for its pages");
    left -= pages * layer.pageBytes;
  }
  if (left != 0)
    return damaged("has bytes that belong to nothing");
  saved.key_.resize(header.length);
  if (header.length)
    std::memcpy(saved.key_.data(), keyBytes.data(), keyBytes.size());
  saved.layers_ = geometry.layers;
  return saved;
}

Result<SeqId> SavedSequence::restore(KvCache &cache) const {
  if (cache.geometry().layers != layers_)
    return incompatible("a saved sequence for other K/V pages");
  G4_ASSIGN_OR_RETURN(const SeqId seq, cache.openFilled(length_, firstSliding_));
  uint64_t total = 0;
  for (const LayerStore &layer : layers_)
    total += pages()[layer.pageClass] * layer.pageBytes;
  const std::span<const std::byte> bytes = file_.bytes();
  std::span<const std::byte> rest = bytes.subspan(bytes.size() - sizeof(uint64_t) - total);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const PageClass pageClass = layers_[i].pageClass;
    const std::span<const PageId> blocks = cache.blocks(seq, pageClass);
    for (PageId page : blocks.subspan(pageClass == PageClass::kSliding ? firstSliding_ : 0)) {
      const std::span<std::byte> data = cache.pageData(i, page);
      std::ranges::copy(rest.first(data.size()), data.data());
      rest = rest.subspan(data.size());
    }
  }
  return seq;
}

} // namespace g4::kv
