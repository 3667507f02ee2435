/// An HTTP server in OpenAI's manner over one engine. docs/server.md says what it answers.
///
/// One thread serves all sockets; a small pool reads requests, renders templates and finds tokens. A
/// connection costs no thread, and has at most one write under way: what a slow reader has not taken waits in
/// its stream.
#pragma once

#include "runtime/api/Engine.h"
#include "runtime/api/Vocabulary.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace g4::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct ServerOptions {
  std::string host = "127.0.0.1";               ///< a name or an address of this machine
  uint16_t port = 8080;                         ///< 0: any free one
  std::string modelName;                        ///< what requests call the model
  std::vector<std::string> apiKeys = {};        ///< one of them must be given; none: no key is asked for
  std::vector<std::string> corsOrigins = {};    ///< web pages that may use the server; "*": all
  uint64_t bodyBytes = 16 << 20;                ///< most of a request's body
  uint32_t headerBytes = 32 << 10;              ///< most of a request's header
  uint32_t connections = 1024;                  ///< more are turned away
  uint32_t workers = 2;                         ///< threads that prepare requests
  std::chrono::milliseconds readTime{60'000};   ///< for a request to arrive, from its first byte
  std::chrono::milliseconds idleTime{120'000};  ///< between requests of a connection
  std::chrono::milliseconds writeTime{120'000}; ///< for a client to take what was written
  std::chrono::milliseconds quietTime{15'000};  ///< after which a stream without news gets a comment
  std::chrono::milliseconds drainTime{30'000};  ///< for running answers to end, once drain() was called
  /// One line, without a line end. Called on the sockets' thread.
  std::function<void(LogLevel, const std::string &)> log = nullptr;
};

/// Threads: all functions from any thread.
class Server {
public:
  /// Serves when it returns. `engine` and `vocabulary`, of one model, must outlive it.
  /// Errors: kInvalidArgument (no such host, an address that is in use or not this machine's),
  /// kResourceExhausted.
  static Result<std::unique_ptr<Server>> start(api::Engine &engine, const api::Vocabulary &vocabulary,
                                               ServerOptions options);
  /// Ends connections at once.
  ~Server();

  uint16_t port() const;
  std::string address() const; ///< "http://127.0.0.1:8080"

  /// Takes no more connections and requests. Running answers have `drainTime` to end; later they are
  /// cancelled, and their clients are told.
  void drain();
  /// Waits until that is done; false: not within `most`.
  bool waitFor(std::chrono::milliseconds most);

private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::server
