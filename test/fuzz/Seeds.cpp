// Writes the seed corpora: <folder>/<fuzzer>/*.
#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "test/support/GgufBuilder.h"
#include "test/support/ModuleBuilder.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {
bool write(const std::filesystem::path &path, const std::string &content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << content;
  return file.good();
}

/// A vocabulary of control tokens, all bytes, a few letters and their merges, as a model file.
std::string vocabularyGguf() {
  using g4::test::bytesOf;
  using B = g4::test::GgufBuilder;
  std::string tokens, types;
  uint32_t count = 0;
  const auto add = [&](const std::string &token, int32_t type) {
    tokens += g4::test::ggufString(token);
    types += bytesOf(type);
    ++count;
  };
  for (const char *control : {"<pad>", "<eos>", "<bos>", "<unk>"})
    add(control, 3);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    add(text, 6);
  }
  for (const char *text : {"a", "b", "ab", "\n", "\xe2\x96\x81",
                           "\xe2\x96\x81"
                           "a"})
    add(text, 1);
  add("<|turn>", 4);
  B b;
  b.addString("tokenizer.ggml.model", "gemma4")
      .addArray("tokenizer.ggml.tokens", B::kString, count, tokens)
      .addArray("tokenizer.ggml.token_type", B::kI32, count, types)
      .addArray("tokenizer.ggml.merges", B::kString, 2,
                g4::test::ggufString("a b") + g4::test::ggufString("\xe2\x96\x81 a"))
      .add("tokenizer.ggml.bos_token_id", B::kU32, bytesOf(2u))
      .add("tokenizer.ggml.eos_token_id", B::kU32, bytesOf(1u));
  return b.build();
}

/// Bodies of requests with most of their fields.
constexpr const char *kChat =
    R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"Hi"}]}],
    "stream":true,"stream_options":{"include_usage":true},"n":2,"seed":1,"temperature":0.5,"top_p":0.9,"top_k":40,
    "min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,"stop":["a"],"logit_bias":{"5":-1},
    "logprobs":true,"top_logprobs":3,"max_tokens":5,"ignore_eos":false,"priority":1,"enable_thinking":true,
    "reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":true},"response_format":{"type":"text"}})";
constexpr const char *kCompletion = R"({"prompt":[[1,2],"text"],"echo":true,"logprobs":2,"max_tokens":0,"n":1})";

/// The files of a model in three parts, one after the other.
std::string splitGguf() {
  std::string all;
  for (uint16_t number : {0, 1, 2}) {
    g4::test::GgufBuilder b;
    if (number == 0)
      b.addString("general.architecture", "gemma4").addString("general.name", "model");
    b.add("split.no", b.kU16, g4::test::bytesOf(number));
    b.add("split.count", b.kU16, g4::test::bytesOf(uint16_t(3)));
    b.add("split.tensors.count", b.kI32, g4::test::bytesOf(3));
    all += b.addTensor("t" + std::to_string(number), {4}, 0, 16).build();
  }
  return all;
}

/// The tables of that vocabulary; empty if they could not be built.
std::string vocabularyTables(const std::string &gguf) {
  const auto file = g4::gguf::File::parse(std::as_bytes(std::span(gguf)), {});
  if (!file.ok())
    return "";
  const auto source = g4::emit::tokenizerSourceFromGguf(**file);
  const auto blob = source.ok() ? g4::emit::buildTokenizerTables(*source) : source.status();
  return blob.ok() ? std::string(reinterpret_cast<const char *>(blob->data()), blob->size()) : "";
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fputs("usage: g4_fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  using namespace g4::test;
  const std::string folder = argv[1];
  const std::string gguf = smallGguf().build();
  GgufBuilder tiny;
  tiny.addTensor("a", {4}, 0, 16);
  GgufBuilder imatrix;
  imatrix.addString("general.type", "imatrix").addTensor("w.in_sum2", {8, 2}, 0, 64).addTensor("w.counts", {1, 2}, 0, 8);

  const AlignedBytes artifact = tinyModule();
  const std::string whole(reinterpret_cast<const char *>(artifact.span().data()), artifact.size());
  flatbuffers::FlatBufferBuilder builder;
  g4::module::fb::FinishModuleBuffer(builder,
                                     g4::module::fb::Module::Pack(builder, unpackHeader(artifact).get()));
  const std::string header(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());

  const std::string vocabulary = vocabularyGguf();
  const std::string tables = vocabularyTables(vocabulary);

  // The first byte tells the fuzzer how to take the rest.
  const bool ok = write(folder + "/gguf/small", '\0' + gguf) &&
                  write(folder + "/gguf/header", '\1' + smallGguf().header()) &&
                  write(folder + "/gguf/tiny", '\0' + tiny.build()) &&
                  write(folder + "/gguf/imatrix", '\0' + imatrix.build()) &&
                  write(folder + "/gguf_parts/first", '\0' + splitGguf()) &&
                  write(folder + "/gguf_parts/second", '\2' + splitGguf()) &&
                  write(folder + "/gguf_parts/all", '\4' + splitGguf()) &&
                  write(folder + "/gguf_parts/reversed", '\6' + splitGguf()) &&
                  write(folder + "/gguf_parts/whole", '\4' + tiny.build()) &&
                  write(folder + "/module/header", '\0' + header) &&
                  write(folder + "/module/artifact", '\1' + whole) && !tables.empty() &&
                  write(folder + "/requests/chat", std::string(1, '\0') + kChat) &&
                  write(folder + "/requests/completion", std::string(1, '\1') + kCompletion) &&
                  write(folder + "/requests/tokenize", std::string("\2{\"prompt\":\"x\",\"with_pieces\":true}")) &&
                  write(folder + "/requests/detokenize", std::string("\3{\"tokens\":[1,2]}")) &&
                  write(folder + "/tokenizer/tables", '\0' + tables) &&
                  write(folder + "/tokenizer/vocabulary", '\1' + vocabulary);
  return ok ? 0 : 1;
}
