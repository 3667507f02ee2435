#include "tools/g4run/Chat.h"
#include "tools/common/Files.h"
#include "tools/g4run/AnswerPrinter.h"
#include "tools/g4run/Interrupt.h"
#include "tools/g4run/LineEditor.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(Enter sends a message, Alt-Enter begins a new line in it; pasted text is one message. Lines typed during an answer wait
for its end. Ctrl-C stops an answer and forgets them; at the prompt, twice Ctrl-C or once Ctrl-D leaves. '/help' lists
the commands. Lines are remembered in $XDG_STATE_HOME/g4/history, or ~/.local/state/g4/history, unless --no-history is
given.

When standard input is no terminal, every line of it is a message or a command. Standard output then has the answers
alone, the exit code is 1 if one of the lines failed.

Examples:
  g4run chat model.g4m
  g4run chat model.g4m --system "Answer briefly." --temp 0.7
  g4run chat model.g4m --load conversation.json)";

struct ChatOptions {
  ModelFlags model;
  SamplingFlags sampling;
  std::optional<uint32_t> maxTokens;
  std::optional<std::string> system;
  std::string load;
  bool think = false, noHistory = false;
};

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of every chat; empty where there is no home.
std::string historyFile() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  namespace fs = std::filesystem;
  fs::path folder;
  if (state && state[0] == '/')
    folder = fs::path(state) / "g4";
  else if (home && *home)
    folder = fs::path(home) / ".local" / "state" / "g4";
  return folder.empty() ? std::string() : (folder / "history").string();
}

/// Empty: lines are forgotten.
std::string historyToKeep(const ChatOptions &options) {
  std::string file = historyFile();
  if (options.noHistory || file.empty() || !isatty(STDIN_FILENO))
    return {};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  return error ? std::string() : file;
}

class Chat {
public:
  Chat(api::Model &model, api::Session &session, const ChatOptions &options, Conversation begun)
      : model_(model), session_(session), options_(options), editor_(historyToKeep(options)),
        sampling_(options.sampling.over(model.defaultSampling())), conversation_(std::move(begun)) {}

  Status run();

private:
  void greet() const;
  Status end() const;
  /// False: leave.
  bool command(const ChatCommand &command);
  Status answer(const std::string &message);
  Result<bool> readPrompt(std::span<const int32_t> ids);
  Result<api::Generation> generate(Conversation::Message &message);
  void endAnswer(const api::Generation &generation);
  /// What is no answer: for programs it stays out of standard output.
  std::FILE *notes() const { return editor_.interactive() ? stdout : stderr; }
  void say(const std::string &text) const;
  void complain(const std::string &text);
  void printStats() const;

  api::Model &model_;
  api::Session &session_;
  const ChatOptions &options_;
  Style style_;
  LineEditor editor_;
  api::SamplingOptions sampling_;
  Conversation conversation_;
  size_t lines_ = 0, failed_ = 0; ///< read, and of those without a terminal to tell that to

  // Of the last answer, for /stats; all 0 where the conversation has none.
  struct {
    size_t prompt = 0, kept = 0, answer = 0;
    double promptSeconds = 0, answerSeconds = 0;
  } stats_;
};

void Chat::say(const std::string &text) const {
  std::fflush(stdout);
  const bool dim = editor_.interactive();
  std::fprintf(notes(), "%s%s%s\n", dim ? style_.dim() : "", text.c_str(), dim ? style_.off() : "");
}

void Chat::complain(const std::string &text) {
  std::fflush(stdout);
  ++failed_;
  if (editor_.interactive())
    std::fprintf(stderr, "%s\n", text.c_str());
  else
    std::fprintf(stderr, "g4run: line %zu: %s\n", lines_, text.c_str());
}

void Chat::greet() const {
  std::printf("%s%s%s\n", style_.bold(), model_.name().c_str(), style_.off());
  say("context of " + std::to_string(model_.contextTokens()) + " tokens, " +
      counted(model_.threads(), "thread") + "; /help lists the commands, Ctrl-D leaves");
}

Status Chat::run() {
  if (editor_.interactive())
    greet();
  bool warned = false; // by one Ctrl-C at the prompt
  for (std::string line;;) {
    if (editor_.interactive())
      std::printf("\n");
    switch (editor_.read("> ", style_.green(), style_.off(), line)) {
    case LineEditor::Read::kEnd:
      return end();
    case LineEditor::Read::kInterrupted:
      clearInterrupt();
      if (warned || !editor_.interactive())
        return {Code::kCancelled, "interrupted"};
      warned = true;
      say("Ctrl-C again, or Ctrl-D, leaves");
      continue;
    case LineEditor::Read::kLine:
      break;
    }
    warned = false;
    ++lines_;
    const ChatCommand input = parseChatLine(line);
    if (input.kind == ChatCommand::Kind::kMessage) {
      G4_RETURN_IF_ERROR(answer(input.text));
    } else if (!command(input)) {
      return end();
    }
    G4_RETURN_IF_ERROR(flushOutput());
  }
}

/// Each complaint has had its line.
Status Chat::end() const { return failed_ && !editor_.interactive() ? invalidArgument("") : Status(); }

bool Chat::command(const ChatCommand &input) {
  using Kind = ChatCommand::Kind;
  switch (input.kind) {
  case Kind::kMessage:
  case Kind::kNothing:
    break;
  case Kind::kBad:
    complain(input.text);
    break;
  case Kind::kHelp:
    std::fputs(chatHelp(), notes());
    break;
  case Kind::kReset:
    conversation_.messages.clear();
    stats_ = {};
    say("a new conversation");
    break;
  case Kind::kSystem:
    conversation_.system = input.text;
    say(input.text.empty() ? "no system message" : "system message set");
    break;
  case Kind::kThink:
    conversation_.thinking = input.on;
    say(input.on ? "the model thinks before it answers" : "the model answers without thinking");
    break;
  case Kind::kSave: {
    Status saved = usesOf(options_.model, {historyFile()}).writes(input.text);
    if (saved.ok())
      saved = conversation_.save(input.text);
    saved.ok() ? say("saved " + counted(conversation_.messages.size(), "message") + " to " + input.text)
               : complain(saved.message());
    break;
  }
  case Kind::kLoad: {
    auto loaded = Conversation::load(input.text);
    if (!loaded.ok()) {
      complain(loaded.status().message());
      break;
    }
    conversation_ = *std::move(loaded);
    stats_ = {};
    say("loaded " + counted(conversation_.messages.size(), "message") + " from " + input.text);
    break;
  }
  case Kind::kStats:
    printStats();
    break;
  case Kind::kQuit:
    return false;
  }
  return true;
}

/// A failure ends the chat; what a person can do something about is printed.
Status Chat::answer(const std::string &message) {
  clearInterrupt();
  conversation_.messages.push_back({"user", message});
  const auto drop = [&] { conversation_.messages.pop_back(); };
  api::ChatRequest request;
  request.json = conversation_.json();
  auto ids = model_.chatPrompt(request);
  if (!ids.ok()) {
    drop();
    complain(ids.status().message());
    return {};
  }
  if (ids->size() >= model_.contextTokens()) {
    drop();
    complain("the conversation has no room for this message: with it there are " +
             std::to_string(ids->size()) + " tokens, and the context is " +
             std::to_string(model_.contextTokens()) + ". /reset begins a new one, /save keeps this one.");
    return {};
  }
  G4_ASSIGN_OR_RETURN(const bool read, readPrompt(*ids));
  Conversation::Message reply{"assistant", ""};
  if (read) {
    G4_ASSIGN_OR_RETURN(const api::Generation generation, generate(reply));
    endAnswer(generation);
  } else {
    say("[stopped]");
  }
  if (reply.content.empty())
    drop(); // nothing was said
  else
    conversation_.messages.push_back(std::move(reply));
  if (interrupted()) {
    editor_.dropTypedAhead();
    if (!editor_.interactive())
      return {Code::kCancelled, "interrupted"};
  }
  clearInterrupt();
  return {};
}

/// False: stopped.
Result<bool> Chat::readPrompt(std::span<const int32_t> ids) {
  const auto start = Clock::now();
  G4_ASSIGN_OR_RETURN(const uint32_t kept, session_.resume(ids));
  stats_ = {};
  stats_.prompt = ids.size();
  stats_.kept = kept;
  // The next prompt will have this one in it, without what a template puts after the last message and without
  // thoughts: a hold a little before the end lets the K/V go back there.
  constexpr size_t kTail = 16;
  Progress progress("reading", "tokens");
  api::FeedRequest request;
  size_t base = kept;
  request.onProgress = [&](uint32_t done, uint32_t) {
    progress.update(base + done - kept, ids.size() - kept);
    return !interrupted();
  };
  if (ids.size() > kept + kTail) {
    request.ids = ids.subspan(kept, ids.size() - kept - kTail);
    request.want = api::Want::kNothing;
    if (Status fed = session_.feed(request); !fed.ok())
      return fed.code() == Code::kCancelled ? Result<bool>(false) : fed;
    base = ids.size() - kTail;
  }
  G4_RETURN_IF_ERROR(session_.hold());
  request.ids = ids.subspan(base);
  request.want = api::Want::kLast;
  if (Status fed = session_.feed(request); !fed.ok())
    return fed.code() == Code::kCancelled ? Result<bool>(false) : fed;
  stats_.promptSeconds = secondsSince(start);
  return true;
}

Result<api::Generation> Chat::generate(Conversation::Message &message) {
  const auto start = Clock::now();
  api::GenerateRequest request;
  request.maxTokens = options_.maxTokens.value_or(request.maxTokens);
  request.sampling = sampling_;
  sampling_.seed += 1; // the next answer draws anew
  AnswerPrinter printer(style_);
  request.onPart = [&](api::Part part, std::string_view text) {
    (part == api::Part::kThought ? message.thought : message.content) += text;
    return printer.print(part, text) && !interrupted();
  };
  auto generation = session_.generate(request);
  printer.finish();
  stats_.answerSeconds = secondsSince(start);
  if (generation.ok())
    stats_.answer = generation->ids.size();
  return generation;
}

void Chat::endAnswer(const api::Generation &generation) {
  if (generation.finish == api::Finish::kCancelled && interrupted()) // else standard output takes no more
    say("[stopped]");
  if (generation.finish == api::Finish::kLength)
    say("[" + counted(generation.ids.size(), "token") + ", the most that -n allows]");
  if (generation.finish == api::Finish::kContext)
    complain("the context of " + std::to_string(model_.contextTokens()) +
             " tokens is full. /reset begins a new conversation, /save keeps this one.");
}

void Chat::printStats() const {
  const auto rate = [](size_t tokens, double seconds) { return seconds > 0 ? double(tokens) / seconds : 0; };
  std::FILE *const out = notes();
  std::fprintf(out, "prompt   %s, %zu of them kept from before; %.2f s, %.1f tokens/s\n",
               counted(stats_.prompt, "token").c_str(), stats_.kept, stats_.promptSeconds,
               rate(stats_.prompt - stats_.kept, stats_.promptSeconds));
  std::fprintf(out, "answer   %s; %.2f s, %.1f tokens/s\n", counted(stats_.answer, "token").c_str(),
               stats_.answerSeconds, rate(stats_.answer, stats_.answerSeconds));
  // The session keeps what it has read until the next prompt, which may have some of it.
  std::fprintf(out, "context  %u of %u tokens\n", stats_.prompt ? session_.length() : 0,
               model_.contextTokens());
}

Status runChat(const ChatOptions &options, const Interrupted &interrupted) {
  api::ModelOptions modelOptions;
  modelOptions.holds = true;
  G4_ASSIGN_OR_RETURN(const OpenModel open, openModel(options.model, interrupted, modelOptions));
  G4_RETURN_IF_ERROR(options.sampling.fits(*open.model));
  noteTemplate(*open.model);
  G4_ASSIGN_OR_RETURN(const auto session, open.model->newSession());
  Conversation begun;
  if (!options.load.empty()) {
    G4_ASSIGN_OR_RETURN(begun, Conversation::load(options.load));
  }
  begun.system = options.system.value_or(begun.system);
  begun.thinking = begun.thinking || options.think;
  Chat chat(*open.model, *session, options, std::move(begun));
  installInterruptOnly();
  return chat.run();
}

} // namespace

void addChat(CLI::App &app, Run &run) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App *command = app.add_subcommand("chat", "Talk to a model");
  command->footer(kNotes);
  addModelFlags(*command, options->model);
  command->add_option("--system", options->system, "System message");
  command->add_flag("--think", options->think, "Let the model think before it answers");
  command
      ->add_option("--load", options->load,
                   "Go on with a conversation that /save wrote; --system and --think change it")
      ->type_name("FILE");
  command->add_flag("--no-history", options->noHistory, "Remember no lines after the program ends");
  addMaxTokens(*command, options->maxTokens);
  addSamplingFlags(*command, options->sampling);
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runChat(*options, interrupted); };
  });
}

} // namespace g4::tool
