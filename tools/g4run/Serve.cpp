#include "runtime/api/Engine.h"
#include "runtime/api/Vocabulary.h"
#include "runtime/server/Server.h"
#include "tools/common/Cli.h"
#include "tools/common/Files.h"
#include "tools/g4run/Commands.h"
#include "tools/g4run/Model.h"

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(Answers OpenAI's clients: /v1/chat/completions, /v1/completions, /v1/models; and /tokenize, /detokenize, /props,
/health and /metrics. Standard output has the address, which tells the port that --port 0 found; standard error has a
line for each request. SIGTERM or Ctrl-C lets running answers end, for as long as --drain-time says; a second one ends
the server at once.

Examples:
  g4run serve model.g4m
  g4run serve model.g4m --host 0.0.0.0 --port 8000 --api-key-file keys.txt
  g4run serve model.g4m --max-seqs 8 --max-context 8192 --kv-bytes 2G
  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "Why is the sky blue?"}]}')";

struct ServeOptions {
  ModelFlags model;
  api::EngineOptions engine;
  server::ServerOptions server;
  std::string keyFile, logLevel = "info";
  uint32_t readSeconds = 60, drainSeconds = 30;
};

/// SIGTERM and Ctrl-C are waited for, by no thread but this one; begun before any other thread is.
class EndSignals {
public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  EndSignals(const EndSignals &) = delete;
  EndSignals &operator=(const EndSignals &) = delete;
  ~EndSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  void wait() const {
    while (sigwaitinfo(&set_, nullptr) < 0) {
    }
  }
  /// Whether one came meanwhile.
  bool came() const {
    const timespec now{};
    return sigtimedwait(&set_, nullptr, &now) >= 0;
  }

private:
  sigset_t set_, before_;
};

/// One key a line; blank lines and blanks around keys do not count.
Status addKeys(const std::string &path, std::vector<std::string> &keys) {
  G4_ASSIGN_OR_RETURN(const std::string text, readFile(path));
  const size_t before = keys.size();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string key = text.substr(at, end - at);
    key.erase(0, std::min(key.find_first_not_of(" \t\r"), key.size()));
    key.erase(key.find_last_not_of(" \t\r") + 1);
    if (!key.empty())
      keys.push_back(std::move(key));
    at = end + 1;
  }
  return keys.size() > before ? Status() : invalidArgument(quotedPath(path) + " has no key");
}

void printStart(const api::Engine &engine, const std::string &artifact, const server::Server &server) {
  const api::Model &model = engine.model();
  std::printf("model    %s, %s\n", model.name().c_str(), quotedPath(artifact).c_str());
  std::printf("code     %s, %u threads\n", model.variant().c_str(), model.threads());
  for (const std::string &line : engine.memoryPlan())
    std::printf("memory   %s\n", line.c_str());
  std::printf("serving  %s\n", server.address().c_str());
  std::fflush(stdout);
}

Status runServe(ServeOptions options, const Interrupted &interrupted) {
  if (!options.keyFile.empty())
    G4_RETURN_IF_ERROR(addKeys(options.keyFile, options.server.apiKeys));
  G4_ASSIGN_OR_RETURN(const Artifact artifact, findArtifact(options.model, interrupted));
  const EndSignals signals;
  options.engine.threads = options.model.threads;
  options.engine.variant = options.model.variant;
  options.engine.weightSeed = options.model.weightSeed;
  options.engine.contextTokens = options.model.context;
  G4_ASSIGN_OR_RETURN(const auto vocabulary, api::Vocabulary::open(artifact.path));
  G4_ASSIGN_OR_RETURN(const auto engine, api::Engine::open(artifact.path, options.engine));
  noteTemplate(engine->model());
  if (options.server.modelName.empty())
    options.server.modelName = engine->model().name();
  spdlog::logger log("g4run", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log.set_level(spdlog::level::from_str(options.logLevel));
  log.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  options.server.log = [&log](server::LogLevel level, const std::string &line) {
    static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                            spdlog::level::warn, spdlog::level::err};
    log.log(kLevels[size_t(level)], spdlog::string_view_t(line.data(), line.size()));
  };
  options.server.readTime = std::chrono::seconds(options.readSeconds);
  options.server.drainTime = std::chrono::seconds(options.drainSeconds);
  G4_ASSIGN_OR_RETURN(const auto server, server::Server::start(*engine, *vocabulary, options.server));
  printStart(*engine, artifact.path, *server);
  signals.wait();
  server->drain();
  while (!server->waitFor(std::chrono::milliseconds(50)))
    if (signals.came())
      break;
  return {};
}

std::string checkLevel(const std::string &text) {
  for (const char *level : {"debug", "info", "warn", "error", "off"})
    if (text == level)
      return {};
  return quotedName(text) + " is none of debug, info, warn, error, off";
}

void addLimits(CLI::App &app, ServeOptions &o) {
  const char *group = "Limits";
  app.add_option("--max-seqs", o.engine.maxSequences, "Answers at the same time; more wait")
      ->check(wholeNumber<uint32_t>(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-queue", o.engine.maxWaiting, "Answers that may wait; more are refused")
      ->check(wholeNumber<uint32_t>())
      ->capture_default_str()
      ->group(group);
  const auto size = [&](const char *name, uint64_t &out, const char *help) {
    app.add_option_function<std::string>(
           name, [name, &out](const std::string &text) { out = valid(name, parseSize(text)); }, help)
        ->type_name("SIZE")
        ->group(group);
  };
  size("--kv-bytes", o.engine.kvBytes,
       "Memory for keys and values; default: a quarter of the memory there is");
  size("--cache-bytes", o.engine.cacheBytes, "Of it, the most for prefixes of ended answers; default: all");
  app.add_option("--read-time", o.readSeconds, "Seconds for a request to arrive")
      ->check(wholeNumber<uint32_t>(1, 86400))
      ->capture_default_str()
      ->group(group);
  app.add_option("--drain-time", o.drainSeconds, "Seconds for running answers to end after SIGTERM")
      ->check(wholeNumber<uint32_t>(0, 86400))
      ->capture_default_str()
      ->group(group);
}

void addAccess(CLI::App &app, ServeOptions &o) {
  const char *group = "Access";
  const auto notEmpty =
      CLI::Validator([](const std::string &text) { return text.empty() ? "is empty" : ""; }, "");
  app.add_option("--api-key", o.server.apiKeys, "A key that requests must give; may be repeated")
      ->type_name("KEY")
      ->check(notEmpty)
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--api-key-file", o.keyFile, "Keys from a file, one a line, where others cannot read them")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--cors-origin", o.server.corsOrigins,
         "Web pages that may use the server, such as https://chat.example; \"*\": all; may be repeated")
      ->type_name("ORIGIN")
      ->check(notEmpty)
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
}

} // namespace

void addServe(CLI::App &app, Run &run) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App *command = app.add_subcommand("serve", "Answer requests over HTTP, as OpenAI's API does");
  command->footer(kNotes);
  addModelFlags(*command, options->model, "--max-context");
  command->add_option("--host", options->server.host, "Name or address to listen on")->capture_default_str();
  command->add_option("--port", options->server.port, "Port; 0: any free one")
      ->check(wholeNumber<uint16_t>())
      ->capture_default_str();
  command->add_option("--name", options->server.modelName,
                      "What requests call the model; default: the model file's name for it");
  command->add_option("--record", options->engine.record, "Write what g4run replay needs")->type_name("FILE");
  command->add_option("--log-level", options->logLevel, "debug, info, warn, error or off")
      ->check(CLI::Validator(checkLevel, ""))
      ->capture_default_str();
  addLimits(*command, *options);
  addAccess(*command, *options);
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runServe(*options, interrupted); };
  });
}

} // namespace g4::tool
