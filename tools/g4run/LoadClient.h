/// Asks a server of OpenAI's API for streams, many at the same time on one thread.
#pragma once

#include "runtime/base/Status.h"
#include "tools/g4run/LoadAnswer.h"
#include "tools/g4run/LoadPlan.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace g4::tool {

/// Where a server is.
struct LoadTarget {
  std::string host, port;
  std::string path; ///< in front of "/models" and "/completions": "/v1"

  /// "http://127.0.0.1:8080" or "http://[::1]:8080/v1"; only one that ends in /v1 has it as its path already.
  /// Errors: kInvalidArgument.
  static Result<LoadTarget> parse(const std::string &url);
  /// The header's: "[::1]:8080".
  std::string authority() const;
};

/// Connections are kept between requests, and there are as many as requests at the same time.
/// Threads: that of the io_context.
class LoadClient {
public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::string apiKey = {};
    std::chrono::milliseconds timeout{600'000}; ///< of a whole request
  };

  /// Looks the host up. Errors: kUnavailable.
  static Result<std::unique_ptr<LoadClient>> create(boost::asio::io_context &context,
                                                    const LoadTarget &target, Options options);
  ~LoadClient();

  /// The first model that the server names. Errors: kUnavailable; kCancelled by stop().
  boost::asio::awaitable<Result<std::string>> modelName();
  /// Nothing that a server does is an error of the call.
  boost::asio::awaitable<LoadOutcome> ask(const PlannedRequest &request, const std::string &model);
  /// Ends what still runs as kUnfinished.
  void stop();

private:
  struct Link;
  struct Exchange;
  LoadClient(boost::asio::io_context &context, LoadTarget target, Options options);
  boost::asio::awaitable<void> run(Exchange &exchange);
  boost::asio::awaitable<bool> runOn(Link &link, Exchange &exchange);
  std::unique_ptr<Link> takeIdle();
  void address(Exchange &exchange, const char *path) const;

  boost::asio::io_context &context_;
  LoadTarget target_;
  Options options_;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;
  std::vector<std::unique_ptr<Link>> idle_;
  std::set<Link *> busy_;
  bool stopped_ = false;
};

} // namespace g4::tool
