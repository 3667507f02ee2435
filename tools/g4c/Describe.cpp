#include "tools/g4c/Describe.h"

using namespace llvm;

namespace g4::g4c {

tool::CommandSpec describe(cl::OptionCategory &category, StringRef overview,
                           const StringMap<std::vector<std::string>> &choices) {
  auto [summary, examples] = overview.split("\n\n");
  summary.consume_front("g4c: ");
  tool::CommandSpec spec;
  spec.name = "g4c";
  spec.summary = summary.str();
  spec.notes = "Examples:\n" + examples.rtrim().str() + "\n\nExit codes: 0 success, 1 failure, 2 bad usage, 3 a bug of ours.";
  spec.positionals.push_back({{}, "FILE", "model.gguf, or a stage that --emit printed", {}});
  spec.options.push_back({{"--help"}, "", "Print this help", {}});
  spec.options.push_back({{"--version"}, "", "Print the version", {}});
  std::vector<cl::Option *> options;
  for (auto &entry : cl::getRegisteredOptions())
    if (is_contained(entry.second->Categories, &category) && entry.second->getOptionHiddenFlag() == cl::NotHidden)
      options.push_back(entry.second);
  sort(options, [](cl::Option *a, cl::Option *b) { return a->ArgStr < b->ArgStr; });
  for (cl::Option *option : options) {
    tool::OptionSpec out;
    out.names.push_back((option->ArgStr.size() > 1 ? "--" : "-") + option->ArgStr.str());
    if (option->getValueExpectedFlag() != cl::ValueDisallowed && option->getValueExpectedFlag() != cl::ValueOptional)
      out.value = option->ValueStr.empty() ? "VALUE" : option->ValueStr.upper();
    out.help = option->HelpStr.str();
    if (auto found = choices.find(option->ArgStr); found != choices.end())
      out.choices = found->second;
    spec.options.push_back(std::move(out));
  }
  return spec;
}

} // namespace g4::g4c
