#include "runtime/server/Connection.h"
#include "runtime/base/Text.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <cstdio>
#include <sys/socket.h>

namespace g4::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Header = http::request_header<>;

/// `co_await f(..., into(ec))`: an error is a value.
auto into(error_code &ec) { return asio::redirect_error(asio::use_awaitable, ec); }

/// Most of a stream that is written at once: what waits for a slow reader beyond it are events, which share
/// memory.
constexpr size_t kWriteBytes = 64 << 10;
/// What a client that gets an error may still send before it reads it.
constexpr size_t kLingerBytes = 32 << 20;
constexpr std::chrono::milliseconds kLingerTime{2000};

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// What the reader of a request failed with; nothing: the client is gone.
std::optional<Failure> failureOf(const error_code &ec, bool expired, const ServerOptions &options) {
  if (expired)
    return Failure{408, "the request did not arrive in time", {}, {}};
  if (ec == http::error::body_limit)
    return Failure{413, "the body is larger than " + std::to_string(options.bodyBytes) + " bytes", {}, {}};
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return Failure{
        431, "the header is larger than " + std::to_string(options.headerBytes) + " bytes", {}, {}};
  if (ec == http::error::end_of_stream || ec == http::error::partial_message ||
      ec.category() != http::make_error_code(http::error::end_of_stream).category())
    return {};
  return Failure{400, "not a request of HTTP/1.1: " + ec.message(), {}, {}};
}

/// While it lives, a request is being answered.
class Answering {
public:
  explicit Answering(Shared &shared) : shared_(shared) { ++shared.traffic.requests; }
  Answering(const Answering &) = delete;
  Answering &operator=(const Answering &) = delete;
  ~Answering() {
    if (--shared_.traffic.requests == 0 && shared_.onRequestEnd)
      shared_.onRequestEnd();
  }

private:
  Shared &shared_;
};

} // namespace

void Wake::notify(const std::shared_ptr<Wake> &wake) {
  std::lock_guard lock(wake->mutex_);
  if (!wake->closed_)
    asio::post(wake->timer_.get_executor(), [wake] { wake->now(); });
}

void Wake::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

/// A request and what is known of its answer.
struct Connection::Exchange {
  std::string method, path;    ///< the path without a query
  std::string label = "other"; ///< for metrics: the path of an endpoint
  unsigned version = 11;
  bool keepAlive = false, head = false;
  std::string origin; ///< of the page that asks, if it may read the answer
  std::vector<std::pair<http::field, std::string>> headers; ///< further ones of the answer
  unsigned status = 499;                                    ///< until one is sent: the client left before
  bool cut = false;                                         ///< the answer did not reach the client whole
  Clock::time_point begin = Clock::now();
  AnswerTotals totals;

  template <class Body> http::response<Body> response(unsigned code) {
    status = code;
    http::response<Body> out{http::status(code), version};
    out.set(http::field::server, "g4");
    if (!origin.empty()) {
      out.set(http::field::access_control_allow_origin, origin);
      out.set(http::field::vary, "Origin");
    }
    for (const auto &[name, value] : headers)
      out.set(name, value);
    out.keep_alive(keepAlive);
    return out;
  }
};

Connection::Connection(asio::ip::tcp::socket socket, Shared &shared)
    : socket_(std::move(socket)), shared_(shared), deadline_(socket_.get_executor()),
      wake_(std::make_shared<Wake>(socket_.get_executor())) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (const auto peer = socket_.remote_endpoint(ignored); !ignored)
    peer_ = peer.address().to_string(ignored) + ':' + std::to_string(peer.port());
}

void Connection::limit(std::chrono::milliseconds time) {
  expired_ = false;
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this(), number = ++deadlines_](error_code ec) {
    const auto self = weak.lock();
    if (ec || !self || number != self->deadlines_)
      return;
    self->expired_ = true;
    self->socket_.cancel(ec);
  });
}

void Connection::noLimit() {
  ++deadlines_;
  deadline_.cancel();
}

void Connection::cancelAnswer() {
  if (running_)
    running_->cancel();
}

void Connection::close() {
  error_code ignored;
  socket_.close(ignored);
  wake_->now();
}

/// While the client only waits, a read that ends says that it left. Bytes are its next request; then this
/// watches no longer.
void Connection::watch() {
  gone_ = false;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [weak = weak_from_this()](error_code ec) {
    const auto self = weak.lock();
    if (ec || !self)
      return;
    char byte;
    const ssize_t got = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
      return;
    self->gone_ = true;
    self->wake_->now();
  });
}

awaitable<void> Connection::run(std::shared_ptr<Connection> self) {
  ++self->shared_.traffic.connections;
  try {
    while (co_await self->waitForRequest() && co_await self->serve()) {
    }
  } catch (const std::exception &error) { // no memory, as a rule: the others go on
    self->shared_.log(LogLevel::kError, self->peer_ + ": its connection ends: " + error.what());
  }
  self->noLimit();
  self->wake_->close();
  self->running_ = nullptr;
  error_code ignored;
  self->socket_.close(ignored);
  --self->shared_.traffic.connections;
}

/// The first bytes of a request; false: there will be none.
awaitable<bool> Connection::waitForRequest() {
  if (buffer_.size() > 0) // sent along with the last one
    co_return true;
  buffer_.shrink_to_fit();
  limit(shared_.options.idleTime);
  error_code ec;
  buffer_.commit(co_await socket_.async_read_some(buffer_.prepare(4096), into(ec)));
  co_return !ec;
}

/// What a request gets because of its header alone.
std::optional<Reply> Connection::admit(Exchange &x, const Header &header) const {
  const std::string_view origin = view(header[http::field::origin]);
  if (!origin.empty() && shared_.access.originFits(origin))
    x.origin = origin;
  else if (!origin.empty() && !Access::ownOrigin(origin, view(header[http::field::host])))
    return replyOf(Failure{
        403, "pages of " + quotedName(origin) + " may not use this server: see --cors-origin", {}, {}});
  const std::optional<Endpoint> endpoint = endpointOf(x.path);
  if (!endpoint)
    return replyOf(Failure{404, "there is no " + quotedName(x.path) + " here", {}, {}});
  x.label = pathOf(*endpoint);
  const bool post = takesBody(*endpoint);
  const char *methods = post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
  if (header.method() == http::verb::options) {
    x.headers = {{http::field::allow, methods},
                 {http::field::access_control_allow_methods, methods},
                 {http::field::access_control_allow_headers, "Authorization, Content-Type"},
                 {http::field::access_control_max_age, "3600"}};
    if (const auto asked = header[http::field::access_control_request_headers]; !asked.empty())
      x.headers[2].second = std::string(view(asked));
    return Reply{204, {}, {}};
  }
  if (post ? header.method() != http::verb::post : header.method() != http::verb::get && !x.head) {
    x.headers = {{http::field::allow, methods}};
    return replyOf(Failure{405, quotedName(x.path) + " takes " + methods + " only", {}, {}});
  }
  if (*endpoint != Endpoint::kHealth && !shared_.access.keyFits(view(header[http::field::authorization]))) {
    x.headers = {{http::field::www_authenticate, "Bearer"}};
    return replyOf(
        Failure{401, "no valid key: send the header Authorization: Bearer KEY", {}, "invalid_api_key"});
  }
  if (post && shared_.draining) {
    x.headers = {{http::field::retry_after, "10"}};
    return replyOf(Failure{503, "the server is shutting down", {}, "shutting_down"});
  }
  return {};
}

/// Reads a request and answers it; false: the connection ends with that.
awaitable<bool> Connection::serve() {
  const ServerOptions &options = shared_.options;
  limit(options.readTime);
  http::request_parser<http::string_body> parser;
  parser.header_limit(options.headerBytes);
  parser.body_limit(options.bodyBytes);
  error_code ec;
  co_await http::async_read_header(socket_, buffer_, parser, into(ec));
  std::optional<Failure> failure;
  if (ec && !(failure = failureOf(ec, expired_, options)))
    co_return false;

  Exchange x;
  const Header &header = parser.get();
  x.method = std::string(view(header.method_string()));
  x.path = std::string(view(header.target()).substr(0, view(header.target()).find('?')));
  x.version = header.version() == 10 ? 10 : 11;
  x.head = header.method() == http::verb::head;
  x.keepAlive = !ec && parser.get().keep_alive();
  const Answering answering(shared_);
  std::optional<Reply> early;
  if (failure)
    early = replyOf(*failure);
  else
    early = admit(x, header);
  if (!early && boost::beast::iequals(header[http::field::expect], "100-continue") && !parser.is_done()) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(socket_, asio::buffer(kContinue), into(ec));
  }
  if (!early && !ec && !parser.is_done())
    co_await http::async_read(socket_, buffer_, parser, into(ec));
  if (!early && ec) {
    if (!(failure = failureOf(ec, expired_, options)))
      co_return false;
    early = replyOf(*failure);
  }
  noLimit();
  const bool unread = !parser.is_done();
  x.keepAlive = x.keepAlive && !unread && !shared_.draining;
  if (early)
    co_await send(x, *early);
  else
    co_await answer(x, *endpointOf(x.path), std::move(parser.get().body()));
  note(x);
  if (unread && !x.cut)
    co_await linger();
  co_return x.keepAlive && !x.cut;
}

awaitable<void> Connection::answer(Exchange &x, Endpoint endpoint, std::string body) {
  if (!takesBody(endpoint))
    co_return co_await send(x, shared_.service.get(endpoint, x.path, shared_.traffic, shared_.draining));
  watch();
  Service::Outcome outcome = co_await asio::co_spawn(
      shared_.workers,
      [&service = shared_.service, endpoint, body = std::move(body),
       wake = wake_]() -> awaitable<Service::Outcome> {
        co_return service.post(endpoint, body, [wake] { Wake::notify(wake); });
      },
      asio::use_awaitable);
  if (auto *running = std::get_if<std::unique_ptr<Running>>(&outcome)) {
    running_ = std::move(*running);
    if (shared_.cutting) // it was prepared while all others were cancelled
      running_->cancel();
    co_await (running_->stream() ? sendStream(x) : sendWhole(x));
    x.totals = running_->totals();
    running_ = nullptr;
  } else {
    co_await send(x, std::get<Reply>(outcome)); // fails where the client has left
  }
  shared_.traffic.disconnects += x.cut;
  error_code ignored;
  socket_.cancel(ignored); // watch()
}

/// Waits until the running answer may have more; false: the client left. After a long wait `comment` gets
/// one.
awaitable<bool> Connection::waitForNews(std::string *comment) {
  if (gone_)
    co_return false;
  error_code ec;
  wake_->timer().expires_after(shared_.options.quietTime);
  co_await wake_->timer().async_wait(into(ec));
  if (!ec && comment)
    *comment += ": still at it\n\n"; // keeps proxies from giving up
  co_return !gone_;
}

awaitable<void> Connection::sendStream(Exchange &x) {
  const bool chunked = x.version == 11;
  x.keepAlive = x.keepAlive && chunked;
  auto head = x.response<http::empty_body>(200);
  head.set(http::field::content_type, "text/event-stream; charset=utf-8");
  head.set(http::field::cache_control, "no-cache");
  head.set("X-Accel-Buffering", "no");
  head.chunked(chunked);
  http::response_serializer<http::empty_body> serializer(head);
  error_code ec;
  limit(shared_.options.writeTime);
  co_await http::async_write_header(socket_, serializer, into(ec));
  std::string out;
  running_->begin(out);
  for (bool more = true; more && !ec;) {
    more = running_->pull(out, kWriteBytes);
    if (out.empty() && more && !co_await waitForNews(&out))
      ec = asio::error::eof;
    if (out.empty() || ec)
      continue;
    limit(shared_.options.writeTime);
    if (chunked)
      co_await asio::async_write(socket_, http::make_chunk(asio::buffer(out)), into(ec));
    else
      co_await asio::async_write(socket_, asio::buffer(out), into(ec));
    noLimit();
    out.clear();
  }
  if (chunked && !ec)
    co_await asio::async_write(socket_, http::make_chunk_last(), into(ec));
  noLimit();
  x.cut = bool(ec);
}

awaitable<void> Connection::sendWhole(Exchange &x) {
  Reply reply;
  while (running_->pull(reply.body, std::string::npos))
    if (!co_await waitForNews(nullptr)) {
      x.cut = true;
      co_return;
    }
  co_await send(x, running_->failure() ? replyOf(*running_->failure()) : reply);
}

awaitable<void> Connection::send(Exchange &x, const Reply &reply) {
  auto message = x.response<http::string_body>(reply.status);
  if (!reply.type.empty())
    message.set(http::field::content_type, reply.type);
  message.body() = reply.body;
  message.prepare_payload();
  error_code ec;
  limit(shared_.options.writeTime);
  if (x.head) {
    http::response_serializer<http::string_body> serializer(message);
    co_await http::async_write_header(socket_, serializer, into(ec));
  } else {
    co_await http::async_write(socket_, message, into(ec));
  }
  noLimit();
  x.cut = bool(ec);
}

/// Reads what a client still sends after its answer: closing over unread bytes would take the answer from it.
awaitable<void> Connection::linger() {
  error_code ec;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  limit(kLingerTime);
  std::array<char, 16384> bytes;
  for (size_t total = 0; !ec && total < kLingerBytes;)
    total += co_await socket_.async_read_some(asio::buffer(bytes), into(ec));
  noLimit();
}

/// Counts the request, and says what became of it.
void Connection::note(const Exchange &x) {
  ++shared_.traffic.replies[{x.label, x.status}];
  if (!shared_.options.log)
    return;
  const AnswerTotals &t = x.totals;
  char text[256];
  int length = std::snprintf(text, sizeof text, " %u %.1f ms", x.status,
                             std::chrono::duration<double, std::milli>(Clock::now() - x.begin).count());
  if (t.promptTokens > 0)
    std::snprintf(text + length, sizeof text - size_t(length),
                  ", prompt %llu (cached %llu), answer %llu, waited %.1f ms, first token %.1f ms, %s",
                  static_cast<unsigned long long>(t.promptTokens),
                  static_cast<unsigned long long>(t.cachedTokens), static_cast<unsigned long long>(t.tokens),
                  t.timings.waiting * 1e3, t.timings.firstToken * 1e3, t.finish.c_str());
  const std::string what = quotedName(x.method + ' ' + x.path); // as it came: may be anything
  shared_.log(x.status >= 500 ? LogLevel::kError : LogLevel::kInfo,
              peer_ + ' ' + what.substr(1, what.size() - 2) + text + (x.cut ? ", client left" : ""));
}

} // namespace g4::server
