#include "runtime/server/Server.h"
#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"
#include "runtime/server/Connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <condition_variable>
#include <thread>

namespace g4::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct Server::Impl {
  const ServerOptions options;
  const Service service;
  const Access access;
  // The frames of coroutines, which use the above and `shared`, die with these two at the latest.
  std::unique_ptr<Shared> shared;
  asio::io_context io{1};
  asio::thread_pool workers;
  tcp::acceptor acceptor{io};
  asio::steady_timer drainTimer{io};
  std::vector<std::weak_ptr<Connection>> connections; ///< and some that have ended
  std::string address;
  uint16_t port = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread thread;

  Impl(api::Engine &engine, const api::Vocabulary &vocabulary, ServerOptions given)
      : options(std::move(given)), service(engine, vocabulary, options.modelName),
        access(options.apiKeys, options.corsOrigins), workers(std::max(options.workers, 1U)) {
    shared = std::make_unique<Shared>(Shared{options, service, access, workers});
  }
  ~Impl();

  Status listen();
  asio::awaitable<void> accept();
  void add(tcp::socket socket);
  void drain();
  void cut();
  void finish();
  void run();
  template <class F> void each(F f) {
    for (const auto &weak : connections)
      if (const auto connection = weak.lock())
        f(*connection);
  }
};

Server::Impl::~Impl() {
  shared->onRequestEnd = nullptr;
  io.stop();
  if (thread.joinable())
    thread.join();
  workers.stop();
  workers.join();
}

Status Server::Impl::listen() {
  const std::string where = quotedName(options.host) + " port " + std::to_string(options.port);
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, ec);
  if (ec || found.empty())
    return invalidArgument("cannot listen on " + where + ": " + ec.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), ec);
  if (!ec)
    acceptor.set_option(tcp::acceptor::reuse_address(true),
                        ec); // a restart need not wait for old connections
  if (!ec)
    acceptor.bind(endpoint, ec);
  if (!ec)
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec)
    return invalidArgument("cannot listen on " + where + ": " + ec.message());
  const tcp::endpoint local = acceptor.local_endpoint(ec);
  port = local.port();
  const std::string host = local.address().to_string();
  address = "http://" + (local.address().is_v6() ? '[' + host + ']' : host) + ':' + std::to_string(port);
  return {};
}

void Server::Impl::run() {
  for (;;) {
    try {
      io.run();
      break;
    } catch (const std::exception &error) { // accept()'s: connections see to their own
      shared->log(LogLevel::kError, error.what());
    }
  }
  {
    std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
}

asio::awaitable<void> Server::Impl::accept() {
  while (acceptor.is_open()) {
    error_code ec;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, ec));
    if (!ec) {
      add(std::move(socket));
    } else if (acceptor.is_open()) { // no more files, or memory: others may end
      shared->log(LogLevel::kWarning, "cannot accept a connection: " + ec.message());
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    }
  }
}

void Server::Impl::add(tcp::socket socket) {
  if (shared->traffic.connections >= options.connections) {
    static constexpr std::string_view kFull = "HTTP/1.1 503 Service Unavailable\r\nConnection: "
                                              "close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kFull), ignored);
    return;
  }
  std::erase_if(connections, [](const auto &weak) { return weak.expired(); });
  auto connection = std::make_shared<Connection>(std::move(socket), *shared);
  connections.push_back(connection);
  asio::co_spawn(io, Connection::run(std::move(connection)), asio::detached);
}

void Server::Impl::drain() {
  if (std::exchange(shared->draining, true))
    return;
  error_code ignored;
  acceptor.close(ignored);
  if (shared->traffic.requests == 0)
    return finish();
  shared->log(LogLevel::kInfo,
              "waiting for " + std::to_string(shared->traffic.requests) + " running requests");
  shared->onRequestEnd = [this] { asio::post(io, [this] { finish(); }); };
  drainTimer.expires_after(options.drainTime);
  drainTimer.async_wait([this](error_code ec) {
    if (!ec)
      cut();
  });
}

/// Answers have had their time: they end now, and clients who do not take the end of theirs are left.
void Server::Impl::cut() {
  shared->cutting = true;
  each([](Connection &connection) { connection.cancelAnswer(); });
  drainTimer.expires_after(std::chrono::seconds(5));
  drainTimer.async_wait([this](error_code ec) {
    if (!ec)
      finish();
  });
}

void Server::Impl::finish() {
  drainTimer.cancel();
  shared->onRequestEnd = nullptr;
  each([](Connection &connection) { connection.close(); });
}

//===- For callers ----------------------------------------------------------------------------------===//

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(api::Engine &engine, const api::Vocabulary &vocabulary,
                                              ServerOptions options) {
  return guarded([&]() -> Result<std::unique_ptr<Server>> {
    auto impl = std::make_unique<Impl>(engine, vocabulary, std::move(options));
    G4_RETURN_IF_ERROR(impl->listen());
    asio::co_spawn(impl->io, impl->accept(), asio::detached);
    impl->thread = std::thread([impl = impl.get()] { impl->run(); });
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  });
}

uint16_t Server::port() const { return impl_->port; }
std::string Server::address() const { return impl_->address; }

void Server::drain() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->drain(); });
}

bool Server::waitFor(std::chrono::milliseconds most) {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, most, [&] { return impl_->ended; });
}

} // namespace g4::server
