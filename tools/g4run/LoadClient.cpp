#include "tools/g4run/LoadClient.h"
#include "runtime/base/Text.h"
#include "tools/common/CommandLine.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>

namespace g4::tool {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using End = LoadOutcome::End;
using Parser = http::response_parser<http::string_body>;

/// More than any event, error or list of models needs.
constexpr size_t kMostBytes = 16 << 20;

auto into(error_code &ec) { return asio::redirect_error(asio::use_awaitable, ec); }

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

bool isHttpError(const error_code &ec) {
  return ec.category() == http::make_error_code(http::error::end_of_stream).category() &&
         ec != http::error::end_of_stream && ec != http::error::partial_message;
}

} // namespace

Result<LoadTarget> LoadTarget::parse(const std::string &url) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&](const char *why) { return invalidArgument(quotedName(url) + " " + why); };
  if (url.starts_with("https://"))
    return wrong("is encrypted: only http:// is supported");
  if (!url.starts_with(kScheme))
    return wrong("does not begin with http://");
  const std::string rest = url.substr(kScheme.size());
  const std::string place = rest.substr(0, rest.find('/'));
  LoadTarget out{{}, "80", rest.substr(place.size())};
  if (std::any_of(url.begin(), url.end(),
                  [](char c) { return c <= ' ' || c == '?' || c == '#' || c == '@'; }))
    return wrong("has more than a host, a port and a path");
  const size_t bracket = place.starts_with('[') ? place.find(']') : 0;
  if (bracket == std::string::npos)
    return wrong("has no ']'");
  const size_t colon = place.find(':', bracket);
  out.host = bracket > 0 ? place.substr(1, bracket - 1) : place.substr(0, colon);
  if (colon != std::string::npos)
    out.port = place.substr(colon + 1);
  if (out.host.empty() || (bracket > 0 && std::min(colon, place.size()) != bracket + 1))
    return wrong("names no host");
  if (const auto port = parseNumber<uint16_t>(out.port); !port || *port == 0)
    return wrong("has no port from 1 to 65535");
  while (out.path.ends_with('/'))
    out.path.pop_back();
  if (!out.path.ends_with("/v1"))
    out.path += "/v1";
  return out;
}

std::string LoadTarget::authority() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

/// A connection.
struct LoadClient::Link {
  explicit Link(asio::io_context &context) : stream(context) {}
  /// Whether it is open and nothing came unasked.
  bool quiet() {
    char byte;
    return recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  bool used = false; ///< for a request before
};

/// A request and its answer.
struct LoadClient::Exchange {
  http::request<http::string_body> request{http::verb::get, "", 11};
  std::optional<uint32_t> cancelAfter{};
  Clock::time_point begin = Clock::now();
  LoadOutcome outcome = {};
  LoadAnswer answer = {};
  unsigned status = 0; ///< 0: no header yet
  std::string body{};  ///< of an answer that is no stream

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  void fail(std::string kind, std::string message) {
    outcome.end = End::kFailed;
    outcome.failure = {std::move(kind), std::move(message)};
  }
  bool take(Parser &parser, SseReader &events);
  void conclude(const error_code &ec, const http::response_header<> &header, bool stream);
};

/// What came of a stream; false: it goes no further.
bool LoadClient::Exchange::take(Parser &parser, SseReader &events) {
  const double now = seconds();
  for (const std::string &data : events.read(parser.get().body()))
    if (!answer.add(data, now, outcome))
      return false;
  parser.get().body().clear();
  if (events.held() > kMostBytes)
    fail("protocol", "an event of more than 16 MiB");
  if (answer.done() && outcome.end == End::kUnfinished) {
    outcome.end = End::kComplete;
    outcome.seconds = now;
  } else if (outcome.end == End::kUnfinished && cancelAfter && outcome.pieces() >= *cancelAfter) {
    outcome.end = End::kCancelled;
  }
  return outcome.end == End::kUnfinished || outcome.end == End::kComplete;
}

/// What it was, once the connection has no more of it.
void LoadClient::Exchange::conclude(const error_code &ec, const http::response_header<> &header,
                                    bool stream) {
  if (outcome.end != End::kUnfinished)
    return;
  if (ec == beast::error::timeout)
    fail("timeout", status ? "the answer did not end in time" : "no answer in time");
  else if (ec && isHttpError(ec))
    fail("protocol", "no HTTP: " + ec.message());
  else if (!status)
    fail("connection", ec.message());
  else if (stream)
    fail("cut short", ec ? ec.message() : "the stream ended without [DONE]");
  else if (status != 200)
    fail("HTTP " + std::to_string(status), errorText(body));
  else if (ec)
    fail("cut short", ec.message());
  else if (request.method() == http::verb::get)
    outcome.end = End::kComplete;
  else
    fail("protocol", "no event stream, but " + quotedName(view(header[http::field::content_type])));
}

LoadClient::LoadClient(asio::io_context &context, LoadTarget target, Options options)
    : context_(context), target_(std::move(target)), options_(std::move(options)) {}

LoadClient::~LoadClient() = default;

Result<std::unique_ptr<LoadClient>> LoadClient::create(asio::io_context &context, const LoadTarget &target,
                                                       Options options) {
  auto out = std::unique_ptr<LoadClient>(new LoadClient(context, target, std::move(options)));
  error_code ec;
  for (const auto &found : tcp::resolver(context).resolve(target.host, target.port, ec))
    out->endpoints_.push_back(found.endpoint());
  if (ec || out->endpoints_.empty())
    return Status(Code::kUnavailable, "looking up " + quotedName(target.host) + ": " + ec.message());
  return out;
}

std::unique_ptr<LoadClient::Link> LoadClient::takeIdle() {
  while (!idle_.empty()) {
    std::unique_ptr<Link> link = std::move(idle_.back());
    idle_.pop_back();
    if (link->quiet())
      return link;
  }
  return std::make_unique<Link>(context_);
}

/// A server may close a connection that is kept just when it is used again: then on a new one.
asio::awaitable<void> LoadClient::run(Exchange &exchange) {
  for (bool again = true; again && !stopped_;) {
    std::unique_ptr<Link> link = takeIdle();
    again = link->used;
    busy_.insert(link.get());
    const bool keep = co_await runOn(*link, exchange);
    busy_.erase(link.get());
    again = again && exchange.status == 0 && exchange.outcome.end == End::kFailed &&
            exchange.outcome.failure.kind == "connection";
    if (again)
      exchange.outcome = {};
    if (keep)
      idle_.push_back(std::move(link));
  }
  if (exchange.outcome.end != End::kComplete)
    exchange.outcome.seconds = exchange.seconds();
}

/// Whether the connection can take another one.
asio::awaitable<bool> LoadClient::runOn(Link &link, Exchange &x) {
  error_code ec;
  link.stream.expires_at(x.begin + options_.timeout);
  if (!link.used) {
    co_await link.stream.async_connect(endpoints_, into(ec));
    if (!ec)
      link.stream.socket().set_option(tcp::no_delay(true), ec);
  }
  link.used = true;
  if (!ec)
    co_await http::async_write(link.stream, x.request, into(ec));
  if (!ec && x.cancelAfter == 0u) {
    x.outcome.end = End::kCancelled;
    co_return false;
  }
  Parser parser;
  parser.eager(true);
  parser.body_limit(boost::none);
  if (!ec)
    co_await http::async_read_header(link.stream, link.buffer, parser, into(ec));
  x.status = ec ? 0 : parser.get().result_int();
  const bool stream =
      x.status == 200 && view(parser.get()[http::field::content_type]).starts_with("text/event-stream");
  SseReader events;
  while (!ec) {
    if (stream && !x.take(parser, events))
      co_return false;
    if (parser.get().body().size() > kMostBytes) {
      x.fail("protocol", "a body of more than 16 MiB");
      co_return false;
    }
    if (parser.is_done())
      break;
    co_await http::async_read_some(link.stream, link.buffer, parser, into(ec));
  }
  x.body = std::move(parser.get().body());
  if (!stopped_)
    x.conclude(ec, parser.get(), stream);
  co_return !ec && parser.keep_alive() && link.buffer.size() == 0;
}

void LoadClient::address(Exchange &x, const char *path) const {
  x.request.target(target_.path + path);
  x.request.set(http::field::host, target_.authority());
  if (!options_.apiKey.empty())
    x.request.set(http::field::authorization, "Bearer " + options_.apiKey);
}

asio::awaitable<Result<std::string>> LoadClient::modelName() {
  Exchange x;
  address(x, "/models");
  co_await run(x);
  if (stopped_)
    co_return Status(Code::kCancelled, "interrupted");
  const std::string where = "asking " + target_.authority() + " for its models: ";
  if (x.outcome.end != End::kComplete)
    co_return Status(Code::kUnavailable,
                     where + x.outcome.failure.kind + ": " + quotedPath(x.outcome.failure.message));
  const nlohmann::json list = nlohmann::json::parse(x.body, nullptr, false);
  const nlohmann::json::json_pointer id("/data/0/id");
  if (!list.is_object() || !list.contains(id) || !list[id].is_string())
    co_return Status(Code::kUnavailable, where + "it names none, so --model must");
  co_return list[id].get<std::string>();
}

asio::awaitable<LoadOutcome> LoadClient::ask(const PlannedRequest &request, const std::string &model) {
  Exchange x;
  address(x, "/completions");
  x.request.method(http::verb::post);
  x.request.set(http::field::content_type, "application/json");
  x.request.set(http::field::accept, "text/event-stream");
  x.request.body() = bodyOf(request, model);
  x.request.prepare_payload();
  x.cancelAfter = request.cancelAfter;
  x.begin = Clock::now();
  co_await run(x);
  co_return std::move(x.outcome);
}

void LoadClient::stop() {
  stopped_ = true;
  for (Link *link : busy_)
    link->stream.close();
}

} // namespace g4::tool
