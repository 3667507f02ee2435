#include "tools/g4c/Options.h"
#include "compiler/quants/Quantize.h"
#include "compiler/quants/Recipe.h"
#include "compiler/targets/cpu/Cpu.h"
#include "passes/exec/Passes.h"
#include "passes/gemma/Passes.h"
#include "passes/lower/Passes.h"
#include "tools/llvm/LlvmTool.h"
#include "tools/g4c/Describe.h"
#include "tools/g4c/Report.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"

namespace cl = llvm::cl;

namespace g4::g4c {
namespace {

[[noreturn]] void usage(const llvm::Twine &message) { tool::badUsage("g4c", message); }

const char *kOverview =
    "g4c: compiles a Gemma 4 GGUF file into an artifact for g4run\n\n"
    "  g4c model.gguf -o model.g4m                    compile\n"
    "  g4c model-00001-of-00003.gguf -o model.g4m     a split model: any one of its parts\n"
    "  g4c model.gguf --activations=f32 -o exact.g4m  exact activations instead of the fast int8 ones\n"
    "  g4c model.gguf --cpu=host -o model.g4m         code for this machine only\n"
    "  g4c model.gguf --quantize=q4_k -o model.g4m    quantise the weights on the way\n"
    "  g4c model.gguf --quantize=q4_k --emit=gguf -o small.gguf   write them as a GGUF file instead\n"
    "  g4c model.gguf --dry-run                       artifact size and memory plan, compiling nothing\n"
    "  g4c model.gguf --emit=exec -o model.mlir       stop after a stage and print it\n"
    "  g4c model.mlir -o model.g4m                    go on from a printed stage\n";

/// What --cpu takes: groups of levels, then levels.
std::string cpuNames() {
  std::string names = "x86-64 (default), aarch64, all, host";
  for (const cpu::Variant &v : cpu::variants())
    names += std::string(", ") + v.name;
  return names;
}

/// Kept: LLVM copies no descriptions.
const std::string &cpuHelp() {
  static const std::string help = "CPU levels in the artifact: " + cpuNames();
  return help;
}

/// Kept: LLVM copies no descriptions.
const std::string &quantizeHelp() {
  static const std::string help = "Quantise the weights: " + quants::typeNames();
  return help;
}

/// The stages of --emit, with bad usage in our words.
struct EmitParser : cl::parser<Emit> {
  using cl::parser<Emit>::parser;
  bool parse(cl::Option &option, llvm::StringRef name, llvm::StringRef text, Emit &out) {
    std::string known;
    for (unsigned i = 0; i < getNumOptions(); ++i) {
      if (getOption(i) == text)
        return cl::parser<Emit>::parse(option, name, text, out);
      known += (i ? ", " : "") + getOption(i).str();
    }
    usage("--emit=" + text + " is no stage: " + known);
  }
};

/// The declared options. LLVM keeps pointers to them (lld resets every option before it links), so they live as long
/// as the Options that were read from them.
struct CommandLine {
  cl::OptionCategory category{"g4c options"};
  cl::list<std::string> inputs{cl::Positional, cl::desc("<model.gguf or stage.mlir>"), cl::ZeroOrMore, cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Output file (default: the input's name with .g4m; '-' prints a stage)"), cl::value_desc("file"), cl::cat(category)};
  cl::opt<Emit, false, EmitParser> emit{"emit", cl::desc("What to write"), cl::init(Emit::kArtifact), cl::cat(category),
                     cl::values(clEnumValN(Emit::kArtifact, "artifact", "the whole artifact (default)"),
                                clEnumValN(Emit::kGguf, "gguf", "a GGUF file where -o names a .gguf; otherwise the model as imported, printed"),
                                clEnumValN(Emit::kGemma, "gemma", "after the model's own passes"),
                                clEnumValN(Emit::kExec, "exec", "programs, dispatches, memory plan"),
                                clEnumValN(Emit::kTile, "tile", "kernel bodies before a target is chosen"),
                                clEnumValN(Emit::kLlvm, "llvm", "optimised LLVM IR of the first --cpu"),
                                clEnumValN(Emit::kAsm, "asm", "assembly of the first --cpu"),
                                clEnumValN(Emit::kObj, "obj", "object file of the first --cpu"))};
  cl::opt<std::string> target{"target", cl::desc("Target (cpu)"), cl::init("cpu"), cl::cat(category)};
  cl::list<std::string> cpu{"cpu", cl::CommaSeparated, cl::desc(cpuHelp()), cl::value_desc("levels"), cl::cat(category)};
  cl::opt<std::string> activations{"activations", cl::desc("int8 (default, fast) or f32 (exact; implies --kv=f32 unless given)"), cl::init("int8"), cl::cat(category)};
  cl::opt<std::string> kv{"kv", cl::desc("K/V cache elements: f16 (default), f32, bf16, q8_0 or q4_0"), cl::cat(category)};
  cl::opt<std::string> weights{"weights", cl::desc("file (default) or none: compile from shapes alone"), cl::init("file"), cl::cat(category)};
  cl::opt<std::string> quantize{"quantize", cl::desc(quantizeHelp()), cl::value_desc("type"), cl::cat(category)};
  cl::opt<std::string> rules{"quantize-rules", cl::desc("File with a pattern of weight names and a type, or 'keep', on each line; goes before --quantize"), cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> imatrix{"imatrix", cl::desc("Importance matrix (llama.cpp's GGUF) to quantise with"), cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> maxRows{"max-rows", cl::desc("Rows of a step: the longest prefill chunk (default 512)"), cl::init("512"), cl::value_desc("rows"), cl::cat(category)};
  cl::opt<bool> dryRun{"dry-run", cl::desc("Print the memory plan and the artifact's size; compile no code, write nothing"), cl::cat(category)};
  cl::opt<bool> json{"json", cl::desc("Print --dry-run's numbers as JSON"), cl::cat(category)};
  cl::opt<std::string> completion{"completion", cl::desc("Print a script that completes g4c's options in a shell: bash, zsh or fish"), cl::value_desc("shell"), cl::cat(category)};
  cl::opt<std::string> beginNote{"begin-note", cl::desc("A line for standard error once input and options are found good"), cl::Hidden, cl::cat(category)}; // for g4run
  cl::opt<bool> man{"man", cl::desc("Print the manual page"), cl::Hidden, cl::cat(category)}; // for the build
};

/// --completion and --man end the program.
void describeAndExit(CommandLine &line) {
  if (line.completion.empty() && !line.man)
    return;
  llvm::StringMap<std::vector<std::string>> choices;
  choices["completion"] = {"bash", "zsh", "fish"};
  choices["target"] = {"cpu"};
  choices["activations"] = {"int8", "f32"};
  choices["weights"] = {"file", "none"};
  for (gguf::Type type : quants::quantizableTypes())
    choices["quantize"].push_back(gguf::typeInfo(static_cast<uint32_t>(type))->name);
  for (unsigned i = 0; i < line.emit.getParser().getNumOptions(); ++i)
    choices["emit"].push_back(line.emit.getParser().getOption(i).str());
  const tool::CommandSpec spec = describe(line.category, kOverview, choices);
  const std::string out =
      line.man ? tool::manPage(spec, "g4c " G4_VERSION) : tool::completionScript(spec, line.completion);
  if (out.empty())
    usage("--completion=" + line.completion + ": bash, zsh or fish");
  llvm::outs() << out;
  exit(0);
}

} // namespace

Options parseOptions(int argc, char **argv) {
  auto line = std::make_shared<CommandLine>();
  auto &[category, inputs, output, emit, target, levels, activations, kv, weights, quantize, rules, imatrix, maxRows, dryRun, json, completion, beginNote, man] = *line;
  // For --mlir-print-ir-after and its like: they are here for developers, by the passes' names, but not in --help.
  gemma::registerGemmaPasses();
  exec::registerG4ExecPasses();
  lower::registerG4LowerPasses();
  cpu::registerG4CpuPasses();
  mlir::registerPassManagerCLOptions();
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << producer() << "\n"; });
  tool::parseLlvmOptions("g4c", argc, argv, kOverview);

  describeAndExit(*line);
  if (inputs.empty())
    usage("no input: a GGUF file, or a printed stage");
  // An empty value is an unset variable of a script more often than a wish for the default.
  for (const cl::opt<std::string> *option : {&output, &kv, &quantize, &rules, &imatrix})
    if (option->getNumOccurrences() && option->empty())
      usage((option->ArgStr.size() > 1 ? "--" : "-") + option->ArgStr.str() + " needs a value");
  if (output == "-" && emit == Emit::kArtifact)
    usage("-o -: an artifact goes to a file, which g4run maps");
  Options o;
  o.commandLine = line;
  o.inputs.assign(inputs.begin(), inputs.end());
  o.output = output;
  o.emit = emit;
  o.beginNote = beginNote;
  if (target != "cpu")
    usage("--target=" + target + " is not built yet: cpu");
  std::vector<std::string> names(levels.begin(), levels.end());
  if (names.empty())
    names = {"x86-64"};
  for (const cpu::Variant &v : cpu::variants()) {
    bool host = cpu::hostVariant() == &v;
    for (const std::string &name : names)
      if (name == "all" || name == v.architecture || name == v.name || (name == "host" && host)) {
        o.cpus.push_back(v.name);
        break;
      }
  }
  for (const std::string &name : names)
    if (!llvm::is_contained({"x86-64", "aarch64", "all", "host"}, name) && !cpu::findVariant(name))
      usage("--cpu=" + name + " is not a CPU level: " + cpuNames());
  if (o.cpus.empty())
    usage("--cpu=host: this machine is below every CPU level (x86-64-v3: AVX2, FMA, F16C, BMI2)");
  auto &gemma = o.pipeline.gemma;
  auto activationType = gemma::symbolizeActivationType(activations);
  if (!activationType)
    usage("--activations=" + activations + ": int8 or f32");
  gemma.activations = *activationType;
  auto kvElement = gemma::symbolizeKvElement(!kv.empty() ? std::string(kv) : activations == "f32" ? "f32" : "f16");
  if (!kvElement)
    usage("--kv=" + kv + ": f16, f32, bf16, q8_0 or q4_0");
  gemma.kv = *kvElement;
  if (weights != "file" && weights != "none")
    usage("--weights=" + weights + ": file or none");
  o.weightsMissing = weights == "none";
  o.dryRun = dryRun;
  o.json = json;
  if (json && !dryRun)
    usage("--json goes with --dry-run");
  if (dryRun && emit != Emit::kArtifact)
    usage("--dry-run is about the artifact: not with --emit");
  if (!quantize.empty() && !quants::typeNamed(quantize.getValue()))
    usage("--quantize=" + quantize + " is no type to quantise to: " + quants::typeNames());
  if (!imatrix.empty() && quantize.empty() && rules.empty())
    usage("--imatrix is for --quantize or --quantize-rules");
  gemma.quantize = quantize;
  gemma.rules = rules;
  gemma.imatrix = imatrix;
  bool namesGguf = llvm::StringRef(o.output).ends_with(".gguf");
  if (o.emit == Emit::kGguf && namesGguf)
    o.emit = Emit::kGgufFile;
  else if (namesGguf)
    usage("-o " + o.output + ": only --emit=gguf writes a GGUF file");
  if (o.emit == Emit::kGguf && o.quantizes())
    usage("--emit=gguf prints the model as imported; to write it quantised name a .gguf file with -o");
  if (o.emit == Emit::kGgufFile && o.weightsMissing)
    usage("--emit=gguf writes weights: not with --weights=none");
  int64_t rows;
  if (llvm::StringRef(maxRows).getAsInteger(10, rows) || rows < 1 || rows > 4096)
    usage("--max-rows must be 1 to 4096");
  o.pipeline.maxRows = rows;
  o.pipeline.maxLogitRows = std::min<int64_t>(rows, 64);
  return o;
}

} // namespace g4::g4c
