#include "tools/common/Cli.h"
#include "tools/common/Files.h"
#include "tools/g4run/Commands.h"
#include "tools/g4run/LoadClient.h"
#include "tools/g4run/LoadReport.h"
#include "tools/g4run/Progress.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cmath>

namespace g4::tool {
namespace {

namespace asio = boost::asio;
using Clock = LoadClient::Clock;
using Seconds = std::chrono::duration<double>;

constexpr char kNotes[] =
    R"(Sends streaming requests to /v1/completions, whose prompts may be token ids: so they are as long as they are meant to
be, whatever the model's vocabulary and template. "ignore_eos" asks for answers of full length. With --clients, each
sends its next request when it has its answer; with --rate, requests come at random times (a Poisson process), however
many still wait. --seed decides all that is asked for, so the same test can be done again.

LENGTH is N, MIN:MAX (each equally often) or lognormal:MEAN (many short ones, few long ones).

Examples:
  g4run loadtest http://127.0.0.1:8080
  g4run loadtest http://127.0.0.1:8080 --clients 8 --prompt-tokens 64:512 --answer-tokens lognormal:128
  g4run loadtest http://127.0.0.1:8080 --rate 2.5 --seconds 60 --shared-prefix 1024 --prefixes 4 --json results.json
  g4run loadtest http://127.0.0.1:8080 --clients 32 --requests 500 --cancel 0.2

Exit code 1: no request was answered.)";

struct LoadFlags {
  std::string url, model, json;
  LoadPlan plan;
  std::optional<uint64_t> requests; ///< none: as many as the time allows
  std::optional<double> seconds;
  uint32_t timeoutSeconds = 600;
  LoadClient::Options client;

  uint64_t most() const { return requests.value_or(seconds ? UINT64_MAX : 64); }
};

asio::awaitable<void> sleep(asio::steady_timer &timer) {
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

/// One test, on the thread of run().
class LoadRun {
public:
  LoadRun(const LoadFlags &flags, const Interrupted &interrupted)
      : flags_(flags), interrupted_(interrupted), arrival_(context_), tick_(context_) {}

  Result<LoadReport> run();
  bool stopped() const { return stopped_; }

private:
  asio::awaitable<void> begin();
  asio::awaitable<void> client();
  asio::awaitable<void> arrivals();
  asio::awaitable<void> ask(PlannedRequest request);
  asio::awaitable<void> watch();
  bool more() const;
  void spawn(asio::awaitable<void> work);
  void showProgress();
  double elapsed() const { return Seconds(Clock::now() - start_).count(); }

  const LoadFlags &flags_;
  const Interrupted &interrupted_;
  asio::io_context context_{1};
  asio::steady_timer arrival_, tick_;
  std::unique_ptr<LoadClient> client_;
  std::optional<Progress> progress_;
  Clock::time_point start_;
  LoadReport report_;
  Status status_;
  uint64_t next_ = 0;    ///< number of the next request
  uint64_t running_ = 0; ///< coroutines that send requests
  bool stopped_ = false;
};

bool LoadRun::more() const {
  return !stopped_ && next_ < flags_.most() && (!flags_.seconds || elapsed() < *flags_.seconds);
}

/// The last one to end stops the watch, and so the run.
void LoadRun::spawn(asio::awaitable<void> work) {
  ++running_;
  asio::co_spawn(context_, std::move(work), [this](std::exception_ptr error) {
    if (--running_ == 0)
      tick_.cancel();
    if (error)
      std::rethrow_exception(error);
  });
}

asio::awaitable<void> LoadRun::ask(PlannedRequest request) {
  const LoadOutcome outcome = co_await client_->ask(request, report_.model);
  report_.tally.add(outcome, request.prompt.size());
  report_.seconds = elapsed();
  if (flags_.plan.rate > 0 || outcome.end != LoadOutcome::End::kFailed)
    co_return;
  asio::steady_timer pause(context_,
                           std::chrono::milliseconds(100)); // a client that is refused does not hurry
  co_await sleep(pause);
}

asio::awaitable<void> LoadRun::client() {
  while (more())
    co_await ask(flags_.plan.request(next_++));
}

asio::awaitable<void> LoadRun::arrivals() {
  for (double at = 0; more(); ++next_) {
    PlannedRequest request = flags_.plan.request(next_);
    at += request.gap;
    if (flags_.seconds && at >= *flags_.seconds)
      break;
    arrival_.expires_at(start_ + std::chrono::duration_cast<Clock::duration>(Seconds(at)));
    co_await sleep(arrival_);
    if (!more())
      break;
    spawn(ask(std::move(request)));
  }
}

/// With a time instead of a number, the number is guessed from the time that is over.
void LoadRun::showProgress() {
  const LoadTally &tally = report_.tally;
  uint64_t total = flags_.most();
  if (flags_.seconds && elapsed() > 0)
    total = std::min(total,
                     uint64_t(std::ceil(double(tally.sent()) * std::max(*flags_.seconds / elapsed(), 1.0))));
  progress_->update(tally.sent(), total);
}

/// Until no request runs.
asio::awaitable<void> LoadRun::watch() {
  while (running_ > 0) {
    tick_.expires_after(std::chrono::milliseconds(100));
    co_await sleep(tick_);
    if (interrupted_() && !stopped_) {
      stopped_ = true;
      client_->stop();
      arrival_.cancel();
    }
    if (progress_)
      showProgress();
  }
}

asio::awaitable<void> LoadRun::begin() {
  report_.model = flags_.model;
  if (report_.model.empty()) {
    Result<std::string> name = co_await client_->modelName();
    if (!name.ok()) {
      status_ = name.status();
      co_return;
    }
    report_.model = *std::move(name);
  }
  progress_.emplace("load test", "requests");
  start_ = Clock::now();
  if (flags_.plan.rate > 0)
    spawn(arrivals());
  else
    for (uint32_t i = 0; i < flags_.plan.clients; ++i)
      spawn(client());
}

Result<LoadReport> LoadRun::run() {
  G4_ASSIGN_OR_RETURN(const LoadTarget target, LoadTarget::parse(flags_.url));
  G4_ASSIGN_OR_RETURN(client_, LoadClient::create(context_, target, flags_.client));
  report_.server = "http://" + target.authority() + target.path;
  report_.plan = flags_.plan;
  spawn(begin());
  asio::co_spawn(context_, watch(), asio::detached);
  context_.run();
  progress_.reset();
  G4_RETURN_IF_ERROR(status_);
  return std::move(report_);
}

/// Opens what `path` names; nothing for "" and "-".
Result<std::optional<OutputFile>> openOutput(const std::string &path) {
  FileUses uses;
  if (path.empty() || path == "-")
    return std::optional<OutputFile>();
  G4_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, uses));
  return std::optional(std::move(file));
}

Status runLoadTest(const LoadFlags &flags, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(auto file, openOutput(flags.json));
  LoadRun run(flags, interrupted);
  G4_ASSIGN_OR_RETURN(const LoadReport report, run.run());
  const std::string json = flags.json.empty() ? "" : loadJson(report);
  G4_RETURN_IF_ERROR(OutputFile::standardOutput().append(flags.json == "-" ? json : loadText(report)));
  if (file) {
    G4_RETURN_IF_ERROR(file->append(json));
    G4_RETURN_IF_ERROR(file->finish());
  }
  const LoadTally &tally = report.tally;
  if (run.stopped())
    return {Code::kCancelled, "interrupted"};
  if (tally.failed > 0 && tally.failed == tally.sent())
    return {Code::kUnavailable, "no request was answered: " + tally.errors.begin()->first};
  return {};
}

void addWorkload(CLI::App &app, LoadFlags &flags) {
  const char *group = "Requests";
  const auto addLength = [&](const char *name, Lengths &length, const char *help) {
    app.add_option_function<std::string>(
           name, [=, &length](const std::string &text) { length = valid(name, Lengths::parse(text)); }, help)
        ->type_name("LENGTH")
        ->default_str(length.text())
        ->group(group);
  };
  LoadPlan &plan = flags.plan;
  addLength("--prompt-tokens", plan.promptTokens, "Tokens of each prompt, besides what it shares");
  addLength("--answer-tokens", plan.answerTokens, "Tokens of each answer");
  app.add_option("--shared-prefix", plan.prefixTokens, "Tokens in front that prompts share")
      ->check(wholeNumber<uint32_t>(0, Lengths::kMost))
      ->capture_default_str()
      ->group(group);
  app.add_option("--prefixes", plan.prefixes, "How many different prefixes they share")
      ->check(wholeNumber<uint32_t>(1))
      ->capture_default_str()
      ->group(group);
  app.add_option("--cancel", plan.cancelled, "Part of the requests that disconnect within the answer, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", plan.seed, "Decides prompts, lengths, times and cancellations")
      ->check(wholeNumber<uint64_t>())
      ->capture_default_str()
      ->group(group);
}

void addClient(CLI::App &app, LoadFlags &flags) {
  CLI::Option *clients = app.add_option("--clients", flags.plan.clients, "Clients that ask one after another")
                             ->check(wholeNumber<uint32_t>(1, 65536))
                             ->capture_default_str();
  app.add_option("--rate", flags.plan.rate, "Requests per second, in place of clients")
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(clients)
      ->type_name("X");
  app.add_option("--requests", flags.requests, "Requests in all (default: 64 without --seconds)")
      ->check(wholeNumber<uint64_t>(1))
      ->type_name("N");
  app.add_option("--seconds", flags.seconds, "No requests after so many seconds; those that run may end")
      ->check(CLI::Range(1e-3, 1e6))
      ->type_name("X");
  app.add_option("--timeout", flags.timeoutSeconds, "Seconds until a request fails")
      ->check(wholeNumber<uint32_t>(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--model", flags.model, "The model to ask; default: the first that the server names")
      ->type_name("NAME");
  app.add_option("--api-key", flags.client.apiKey, "Sent as Authorization: Bearer KEY")->type_name("KEY");
  app.add_option("--json", flags.json, "Write the results to a file; '-' prints them instead of the table")
      ->type_name("FILE");
}

} // namespace

void addLoadTest(CLI::App &app, Run &run) {
  auto flags = std::make_shared<LoadFlags>();
  CLI::App *command = app.add_subcommand("loadtest", "Measure a server with many requests at once");
  command->footer(kNotes);
  command->add_option("url", flags->url, "The server: http://HOST:PORT")->type_name("URL")->required();
  addClient(*command, *flags);
  addWorkload(*command, *flags);
  command->callback([flags, &run] {
    valid("url", LoadTarget::parse(flags->url));
    const auto bad = [](unsigned char c) { return c < ' ' || c == 0x7f; };
    if (std::any_of(flags->client.apiKey.begin(), flags->client.apiKey.end(), bad))
      throw CLI::ValidationError("--api-key", "has a control character");
    flags->client.timeout = std::chrono::seconds(flags->timeoutSeconds);
    run = [flags](const Interrupted &interrupted) { return runLoadTest(*flags, interrupted); };
  });
}

} // namespace g4::tool
