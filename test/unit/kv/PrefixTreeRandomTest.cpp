/// Thousands of random calls, and after each one everything compared with PrefixModel.
#include "runtime/kv/SavedSequence.h"
#include "test/unit/kv/PrefixModel.h"

#include <filesystem>
#include <random>
#include <unistd.h>

namespace g4::kv {
namespace {

constexpr uint32_t kMostSequences = 5, kLongest = 60;

struct World {
  uint32_t window;
  uint32_t slidingPages, globalPages;
  uint64_t cap;
  const char *name;
};

class Player {
public:
  Player(const World &world, uint64_t seed)
      : cached_(world.window, {world.slidingPages, world.globalPages, true}),
        tree_(std::make_unique<PrefixTree>(*cached_.cache, world.cap)),
        model_(cached_, world.window, world.cap), random_(seed),
        path_(std::filesystem::temp_directory_path() / ("g4-random-" + std::to_string(getpid()) + ".g4kv")) {}
  ~Player() { std::filesystem::remove(path_); }

  /// One call, whatever it is.
  void play() {
    if (!model_.sequences.empty() && below(300) == 0) // waits for the disk
      return saveAndRestore(someSequence());
    const uint32_t dice = below(100);
    if (model_.sequences.empty() || (dice < 20 && model_.sequences.size() < kMostSequences))
      return open();
    const SeqId seq = someSequence();
    if (dice < 50)
      return extend(seq);
    if (dice < 68)
      return insert(seq);
    if (dice < 84)
      return close(seq);
    if (dice < 90)
      return truncate(seq);
    if (dice < 96)
      return fork(seq);
    const uint32_t more = below(8) ? 5 : 100; // a little, or what may be too much
    makeRoom({cached_.cache->pool(PageClass::kSliding).free() + below(more),
              cached_.cache->pool(PageClass::kGlobal).free() + below(more)});
  }

  std::string check() const { return model_.check(tree_->stats()); }
  const PrefixStats &stats() const { return tree_->stats(); }

  /// Ends everything; pages that are still in use then.
  uint32_t finish() {
    while (!model_.sequences.empty())
      close(model_.sequences.begin()->first);
    tree_.reset();
    return cached_.used(PageClass::kSliding) + cached_.used(PageClass::kGlobal);
  }

  void open() {
    const Key key = someKey();
    const auto [tokens, branch] = model_.open(key);
    const auto opened = tree_->open(key);
    EXPECT_EQ(opened.tokens, tokens);
    EXPECT_EQ(opened.branch, branch);
    model_.opened(opened.seq, key, tokens);
  }

  void extend(SeqId seq) {
    PrefixModel::Sequence &sequence = model_.sequences.at(seq);
    uint32_t length = sequence.length + 1 + below(below(4) ? 3 : 3 * kPage);
    while (sequence.key.size() < length)
      sequence.key.push_back(below(2));
    length = std::min(length, kLongest);
    const Growth growth{seq, length - sequence.length};
    const PageCounts wanted = *cached_.cache->pagesFor({&growth, 1});
    const PageCounts before{cached_.used(PageClass::kSliding), cached_.used(PageClass::kGlobal)};
    Status status = cached_.extend(seq, sequence.key, length);
    if (status.ok())
      return model_.advance(seq, length);
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
    EXPECT_EQ((PageCounts{cached_.used(PageClass::kSliding), cached_.used(PageClass::kGlobal)}), before);
    if (makeRoom(wanted)) {
      status = cached_.extend(seq, sequence.key, length);
      EXPECT_TRUE(status.ok()) << "after room was made: " << status.message();
      return model_.advance(seq, length);
    }
    close(seq); // preempted
  }

  void insert(SeqId seq) {
    remember(model_.sequences.at(seq).key);
    model_.beforeInsert(seq);
    EXPECT_TRUE(tree_->insert(model_.sequences.at(seq).key, seq).ok());
    model_.afterInsert(seq);
  }

  void close(SeqId seq) {
    EXPECT_TRUE(cached_.cache->close(seq).ok());
    model_.sequences.erase(seq);
  }

  void truncate(SeqId seq) {
    PrefixModel::Sequence &sequence = model_.sequences.at(seq);
    const uint32_t length = below(4) ? sequence.length - std::min(sequence.length, below(2 * kPage)) : 0;
    const bool can = model_.canTruncate(seq, length);
    EXPECT_EQ(cached_.cache->truncate(seq, length).ok(), can);
    if (!can)
      return;
    model_.truncate(seq, length);
    sequence.key.resize(length); // and goes on differently
  }

  void fork(SeqId seq) {
    const auto copy = cached_.cache->fork(seq);
    ASSERT_TRUE(copy.ok());
    PrefixModel::Sequence sequence = model_.sequences.at(seq);
    sequence.key.resize(sequence.length);
    model_.sequences[*copy] = sequence;
  }

  bool makeRoom(PageCounts wanted) {
    const bool room = model_.makeRoom(wanted);
    EXPECT_EQ(tree_->makeRoom(wanted), room);
    return room;
  }

  void saveAndRestore(SeqId seq) {
    const PrefixModel::Sequence sequence = model_.sequences.at(seq);
    const Key key(sequence.key.begin(), sequence.key.begin() + sequence.length);
    std::filesystem::remove(path_);
    ASSERT_TRUE(saveSequence(*cached_.cache, seq, key, 1, path_).ok());
    close(seq);
    const auto saved = SavedSequence::open(path_, cached_.cache->geometry(), 1);
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    EXPECT_EQ(saved->key(), key);
    if (!makeRoom(saved->pages()))
      return;
    const auto restored = saved->restore(*cached_.cache);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    model_.sequences[*restored] = {key, sequence.length, sequence.firstSliding};
  }

  WrittenCache &cached() { return cached_; }
  PrefixTree &tree() { return *tree_; }
  PrefixModel &model() { return model_; }

private:
  uint32_t below(uint32_t n) { return uint32_t(random_() % n); }
  SeqId someSequence() {
    return std::next(model_.sequences.begin(), below(uint32_t(model_.sequences.size())))->first;
  }
  /// Most keys begin as another one does; few elements, so that others do by chance.
  Key someKey() {
    Key key;
    if (!keys_.empty() && below(5)) {
      key = keys_[below(uint32_t(keys_.size()))];
      if (below(2))
        key.resize(below(uint32_t(key.size()) + 1));
    }
    for (uint32_t more = below(4 * kPage); more > 0 && key.size() < kLongest; --more)
      key.push_back(below(2));
    remember(key);
    return key;
  }
  void remember(const Key &key) {
    keys_.push_back(key);
    if (keys_.size() > 30)
      keys_.erase(keys_.begin() + below(30));
  }

  WrittenCache cached_;
  std::unique_ptr<PrefixTree> tree_;
  PrefixModel model_;
  std::mt19937_64 random_;
  std::vector<Key> keys_;
  std::string path_;
};

constexpr uint64_t kBoth = kSlidingBytes + kGlobalBytes;
constexpr World kWorlds[] = {
    {8, 60, 120, UINT64_MAX, "much room"},
    {8, 40, 50, 25 * kBoth, "a cap"},
    {8, 24, 36, UINT64_MAX, "few pages"},
    {1, 20, 60, 30 * kBoth, "no window"},
    {6, 30, 40, 9 * kBoth + 5, "a small cap"},
    {40, 60, 60, 40 * kBoth, "a long window"},
    {9, 26, 26, 0, "no cache"},
};

TEST(PrefixTreeRandomTest, EveryCallDoesWhatAPlainMapSays) {
  uint64_t hits = 0, evicted = 0, refusals = 0;
  for (const World &world : kWorlds) {
    Player player(world, 1);
    for (int call = 0; call < 4000; ++call) {
      player.play();
      ASSERT_EQ(player.check(), "") << world.name << ", call " << call;
      ASSERT_FALSE(testing::Test::HasFailure()) << world.name << ", call " << call;
    }
    hits += player.stats().hits;
    evicted += player.stats().evictedGlobal + player.stats().evictedSliding;
    refusals += player.stats().refusals;
    EXPECT_EQ(player.finish(), 0u) << world.name << ": pages are still in use";
  }
  EXPECT_GT(hits, 800u);
  EXPECT_GT(evicted, 1000u);
  EXPECT_GT(refusals, 100u);
}

/// The comparison finds each kind of mistake.
TEST(PrefixTreeRandomTest, MistakesAreFound) {
  const auto mistake = [](auto &&make) {
    Player player(kWorlds[0], 2);
    for (int call = 0; call < 200 || player.cached().cache->pool(PageClass::kSliding).idle() == 0 ||
                       player.model().sequences.empty();
         ++call)
      player.play();
    EXPECT_EQ(player.check(), "");
    make(player);
    return player.check();
  };
  const Key key(9, 1);
  const auto anyPage = [](Player &player, PageClass pageClass) {
    PageId page = 0;
    while (player.cached().cache->pool(pageClass).references(page) == 0)
      ++page;
    return page;
  };
  EXPECT_NE(mistake([&](Player &p) {
              p.cached().cache->retainCached(PageClass::kGlobal, anyPage(p, PageClass::kGlobal));
            }).find("references instead of"),
            std::string::npos)
      << "a reference too many";
  EXPECT_NE(mistake([&](Player &p) {
              (void)p.cached().extend(p.cached().cache->open(), key, 9);
            }).find("references instead of"),
            std::string::npos)
      << "a sequence that is never closed";
  EXPECT_NE(mistake([&](Player &p) {
              for (size_t layer = 0; layer < 3; ++layer)
                p.cached().cache->pageData(layer, anyPage(p, kLayerClass[layer]))[0] ^= std::byte(1);
            }).find("holds something else"),
            std::string::npos)
      << "a page that was written";
  EXPECT_NE(mistake([&](Player &p) { p.tree().open(key); }), "") << "a lookup";
  EXPECT_NE(mistake([&](Player &p) {
              p.tree().makeRoom({p.cached().cache->pool(PageClass::kSliding).free() + 1, 0});
            }),
            "")
      << "evictions";
  EXPECT_NE(mistake([&](Player &p) { p.model().sequences.begin()->second.length += 1; }), "") << "a length";
}

} // namespace
} // namespace g4::kv
