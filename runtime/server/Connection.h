/// One client's connection. Not public.
#pragma once

#include "runtime/server/Access.h"
#include "runtime/server/Server.h"
#include "runtime/server/Service.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>

#include <functional>
#include <memory>
#include <mutex>

namespace g4::server {

class Connection;

/// What connections share. Sockets' thread only, but for `service.post`.
struct Shared {
  const ServerOptions &options;
  const Service &service;
  const Access &access;
  boost::asio::thread_pool &workers;
  Traffic traffic = {};
  bool draining = false;
  bool cutting = false;                         ///< draining took too long: answers are cancelled
  std::function<void()> onRequestEnd = nullptr; ///< the last request that was being answered has ended

  void log(LogLevel level, const std::string &line) const {
    if (options.log)
      options.log(level, line);
  }
};

/// Lets the engine's thread end a wait on the sockets' thread.
class Wake {
public:
  explicit Wake(const boost::asio::any_io_executor &executor) : timer_(executor) {}
  /// Any thread; nothing once closed.
  static void notify(const std::shared_ptr<Wake> &wake);
  /// Sockets' thread. Afterwards notify() touches nothing of it.
  void close();
  /// Sockets' thread: ends a wait for timer().
  void now() { timer_.cancel(); }
  boost::asio::steady_timer &timer() { return timer_; }

private:
  std::mutex mutex_;
  bool closed_ = false;
  boost::asio::steady_timer timer_;
};

/// Owner: the coroutine that run() begins, and whoever keeps a weak_ptr to it may use it as long as that
/// runs.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  Connection(boost::asio::ip::tcp::socket socket, Shared &shared);

  /// Answers requests until the client or the server has had enough. Keeps `self` alive.
  static boost::asio::awaitable<void> run(std::shared_ptr<Connection> self);

  /// The answer that runs, if any, is to end.
  void cancelAnswer();
  void close();

private:
  struct Exchange;

  std::optional<Reply> admit(Exchange &exchange, const boost::beast::http::request_header<> &header) const;
  boost::asio::awaitable<bool> waitForRequest();
  boost::asio::awaitable<bool> serve();
  boost::asio::awaitable<void> answer(Exchange &exchange, Endpoint endpoint, std::string body);
  boost::asio::awaitable<void> sendStream(Exchange &exchange);
  boost::asio::awaitable<void> sendWhole(Exchange &exchange);
  boost::asio::awaitable<bool> waitForNews(std::string *comment);
  boost::asio::awaitable<void> send(Exchange &exchange, const Reply &reply);
  boost::asio::awaitable<void> linger();
  void watch();
  void limit(std::chrono::milliseconds time);
  void noLimit();
  void note(const Exchange &exchange);

  boost::asio::ip::tcp::socket socket_;
  Shared &shared_;
  std::string peer_;
  boost::asio::steady_timer deadline_;
  uint64_t deadlines_ = 0; ///< set so far: an old one that still comes is none
  bool expired_ = false;   ///< the last one passed
  bool gone_ = false;      ///< the client closed its side
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<Wake> wake_;
  std::unique_ptr<Running> running_;
};

} // namespace g4::server
