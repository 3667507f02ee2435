#include "test/unit/text/TextTestSupport.h"

#include "runtime/text/Detokenizer.h"

#include <pthread.h>

#include <algorithm>
#include <ctime>

namespace g4::text::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

std::vector<int32_t> encode(const Vocabulary &vocabulary, std::string_view text, Match match) {
  auto result = vocabulary.tokenizer->encode(text, match);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : std::vector<int32_t>();
}

std::string detokenize(const Vocabulary &vocabulary, const std::vector<int32_t> &tokens, bool skipSpecial) {
  Detokenizer detokenizer(*vocabulary.tokenizer, {skipSpecial});
  std::string out;
  for (int32_t id : tokens)
    out += detokenizer.push(id);
  return out + detokenizer.finish();
}

TEST(TokenizerTest, RealVocabularyMatchesTheReferenceOnEveryCase) {
  const Vocabulary &vocabulary = realVocabulary();
  int valid = 0, invalid = 0;
  for (const Json &row : readJsonLines(G4_TEST_DATA "/text/tokenizer_cases.jsonl")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    if (row.contains("bytes_hex")) {
      ++invalid;
      const std::string bytes = fromHex(row["bytes_hex"]);
      EXPECT_EQ(encode(vocabulary, bytes, Match::kSpecial), ids(row["ids_bytes"]));
      EXPECT_EQ(vocabulary.tokenizer->decodeBytes(ids(row["ids_bytes"]), false), bytes);
      EXPECT_EQ(encode(vocabulary, row["text_replaced"].get<std::string>(), Match::kSpecial),
                ids(row["ids_special"]));
      continue;
    }
    ++valid;
    const std::string text = row["text"];
    EXPECT_EQ(encode(vocabulary, text, Match::kPlain), ids(row["ids_plain"]));
    EXPECT_EQ(encode(vocabulary, text, Match::kUser), ids(row["ids_user"]));
    EXPECT_EQ(encode(vocabulary, text, Match::kSpecial), ids(row["ids_special"]));
    EXPECT_EQ(detokenize(vocabulary, ids(row["ids_special"]), false), row["decoded"].get<std::string>());
    EXPECT_EQ(detokenize(vocabulary, ids(row["ids_special"]), true),
              row["decoded_skip_special"].get<std::string>());
    EXPECT_EQ(vocabulary.tokenizer->decodeBytes(ids(row["ids_special"]), false) == text,
              row["roundtrip"].get<bool>());
  }
  EXPECT_EQ(valid, 309);
  EXPECT_EQ(invalid, 14);
}

TEST(TokenizerTest, FixtureVocabularyMatchesTheReferenceOnEveryCase) {
  const auto vocabulary = fromGguf(kFixtureModel);
  ASSERT_TRUE(vocabulary);
  int cases = 0;
  for (const Json &row : readJsonLines(G4_TEST_DATA "/text/small_vocab_cases.jsonl")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    ++cases;
    EXPECT_EQ(encode(*vocabulary, row["text"].get<std::string>(), Match::kSpecial), ids(row["ids_special"]));
    EXPECT_EQ(detokenize(*vocabulary, ids(row["ids_special"]), false), row["decoded"].get<std::string>());
  }
  EXPECT_EQ(cases, 305);
}

TEST(TokenizerTest, NanoPromptsHaveTheReferenceIds) {
  const Vocabulary &vocabulary = nanoVocabulary();
  int cases = 0;
  for (const Json &row : readJsonLines(G4_MODELS "/gemma4-nano/expected.jsonl")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    ++cases;
    EXPECT_EQ(encode(vocabulary, row["prompt"].get<std::string>(), Match::kSpecial), ids(row["prompt_ids"]));
    auto prompt = vocabulary.tokenizer->encodePrompt(row["prompt"].get<std::string>(), Match::kSpecial);
    ASSERT_TRUE(prompt.ok());
    EXPECT_EQ(*prompt, ids(row["prompt_ids"]));
    std::vector<int32_t> output = ids(row["output_ids"]);
    if (row["finish"] == "stop")
      output.pop_back();
    EXPECT_EQ(detokenize(vocabulary, output, false), row["output_text"].get<std::string>());
  }
  EXPECT_EQ(cases, 50);
}

TEST(TokenizerTest, EveryByteStringSurvivesTheRoundTrip) {
  const Vocabulary &vocabulary = realVocabulary();
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += char(i);
  uint64_t state = 7;
  std::vector<std::string> texts{all,     " leading space", "  two",
                                 "tail ", "a\n\n\nb",       "\xf0\x9f\x98\x80 caf\xc3\xa9"};
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int j = 0; j < 100; ++j) {
      state = mixBits(state + 0x9e3779b97f4a7c15ull);
      text += i % 2 ? char(state) : char(state % 3 == 0 ? ' ' : 'a' + state % 26);
    }
    if (text.find("\xe2\x96\x81") == text.npos) // U+2581 itself decodes to a space
      texts.push_back(text);
  }
  for (const std::string &text : texts)
    EXPECT_EQ(vocabulary.tokenizer->decodeBytes(encode(vocabulary, text, Match::kSpecial), false), text);
}

TEST(TokenizerTest, PromptBeginsWithExactlyOneBos) {
  const Vocabulary &vocabulary = realVocabulary();
  const int32_t bos = *vocabulary.tokenizer->bos();
  for (const char *text : {"Hello", "<bos>Hello", "<bos><bos>Hello", "", "<bos>"}) {
    auto prompt = vocabulary.tokenizer->encodePrompt(text, Match::kSpecial);
    ASSERT_TRUE(prompt.ok());
    ASSERT_FALSE(prompt->empty());
    EXPECT_EQ(prompt->front(), bos) << text;
    EXPECT_EQ(std::count(prompt->begin(), prompt->end(), bos), 1) << text;
  }
}

TEST(TokenizerTest, MergesAcrossSpacesAreFound) {
  // "a b" as one token: correct only if the text is not cut before the space.
  const std::string space = "\xe2\x96\x81";
  auto source = tinySource({space + "b", "a" + space + "b"}, {space + " b", "a " + space + "b"});
  const auto vocabulary = fromSource(source);
  ASSERT_TRUE(vocabulary);
  EXPECT_EQ(encode(*vocabulary, "a b", Match::kPlain),
            std::vector<int32_t>{int32_t(source.tokens.size()) - 1});
}

TEST(TokenizerTest, EqualRanksMergeLeftmostFirst) {
  auto source = tinySource({"aa"}, {"a a"});
  const auto vocabulary = fromSource(source);
  ASSERT_TRUE(vocabulary);
  const int32_t aa = *vocabulary->tokenizer->find("aa"), a = *vocabulary->tokenizer->find("a");
  EXPECT_EQ(encode(*vocabulary, "aaa", Match::kPlain), (std::vector<int32_t>{aa, a}));
  std::vector<int32_t> expected(500, aa);
  expected.push_back(a);
  EXPECT_EQ(encode(*vocabulary, std::string(1001, 'a'), Match::kPlain), expected); // the long-word path
}

TEST(TokenizerTest, ShortAndLongWordsMergeAlike) {
  const Vocabulary &vocabulary = realVocabulary();
  uint64_t state = 3;
  for (int round = 0; round < 50; ++round) {
    std::string word;
    for (int i = 0; i < 30; ++i) {
      state = mixBits(state + 0x9e3779b97f4a7c15ull);
      word += char('a' + state % 7);
    }
    // 30 symbols are merged in an array; seven control characters more, which merge with nothing here, and
    // the same letters are merged with a heap.
    const std::vector<int32_t> alone = encode(vocabulary, word, Match::kPlain);
    const std::string joined = word + "\x01\x02\x03\x04\x05\x06\x07";
    std::vector<int32_t> longer = encode(vocabulary, joined, Match::kPlain);
    ASSERT_GE(longer.size(), 7u);
    longer.resize(longer.size() - 7);
    EXPECT_EQ(longer, alone) << word;
  }
}

/// Processor time of this thread: tests run side by side.
double threadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

/// Runs on a thread with the smallest usual stack, so that recursion by text length would crash.
double secondsOnSmallStack(const std::string &text) {
  const Vocabulary &vocabulary = realVocabulary();
  double seconds = 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  struct Job {
    const Vocabulary &vocabulary;
    const std::string &text;
    double &seconds;
  } job{vocabulary, text, seconds};
  pthread_t thread;
  EXPECT_EQ(pthread_create(
                &thread, &attributes,
                [](void *argument) -> void * {
                  Job &job = *static_cast<Job *>(argument);
                  const double start = threadSeconds();
                  auto tokens = job.vocabulary.tokenizer->encode(job.text, Match::kSpecial);
                  job.seconds = threadSeconds() - start;
                  EXPECT_TRUE(tokens.ok());
                  if (tokens.ok())
                    EXPECT_EQ(job.vocabulary.tokenizer->decodeBytes(*tokens, false), job.text);
                  return nullptr;
                },
                &job),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return seconds;
}

TEST(TokenizerTest, LongTextsTakeLinearTimeAndConstantStack) {
  constexpr size_t kSize = 4 << 20;
  std::string line, word, specials;
  const char *words[] = {"the ",  "quick ", "brown ", "f\xc3\xb6x ", "jumps ",
                         "over ", "13 ",    "lazy ",  "dogs; ",      "x=y "};
  uint64_t state = 1;
  while (line.size() < kSize) {
    state = mixBits(state + 0x9e3779b97f4a7c15ull);
    line += words[state % 10];
    if (state % 3 == 0)
      line += std::to_string(state % 100000) + " ";
  }
  while (word.size() < (1 << 20)) {
    state = mixBits(state + 0x9e3779b97f4a7c15ull);
    word += char('a' + state % 26);
  }
  while (specials.size() < kSize)
    specials += "<|turn<|tool_c<turn|";
  struct {
    const char *name;
    const std::string &text;
  } cases[] = {{"4 MiB in one line", line},
               {"4 MiB of one letter", std::string(kSize, 'a')},
               {"4 MiB of spaces", std::string(kSize, ' ')},
               {"4 MiB of newlines", std::string(kSize, '\n')},
               {"a word of 1 MiB", word},
               {"4 MiB of broken special tokens", specials},
               {"4 MiB of invalid bytes", std::string(kSize, '\xff')}};
  for (const auto &[name, text] : cases) {
    const double seconds = secondsOnSmallStack(text);
    std::printf("%s: %.3f s\n", name, seconds);
    EXPECT_LT(seconds, kSanitized ? 60.0 : 2.0) << name;
  }
}

} // namespace
} // namespace g4::text::test
