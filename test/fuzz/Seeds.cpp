// Writes the seed corpora: <folder>/gguf/* and <folder>/module/*.
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

  const AlignedBytes artifact = tinyModule();
  const std::string whole(reinterpret_cast<const char *>(artifact.span().data()), artifact.size());
  flatbuffers::FlatBufferBuilder builder;
  g4::module::fb::FinishModuleBuffer(builder,
                                     g4::module::fb::Module::Pack(builder, unpackHeader(artifact).get()));
  const std::string header(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());

  // The first byte tells the fuzzer how to take the rest.
  const bool ok = write(folder + "/gguf/small", '\0' + gguf) &&
                  write(folder + "/gguf/header", '\1' + smallGguf().header()) &&
                  write(folder + "/gguf/tiny", '\0' + tiny.build()) &&
                  write(folder + "/module/header", '\0' + header) &&
                  write(folder + "/module/artifact", '\1' + whole);
  return ok ? 0 : 1;
}
