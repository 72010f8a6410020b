#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace lathe {

/// An HTTP server on loopback that answers as a test says, byte by byte if need be. One thread a
/// connection; each connection serves one request.
class ScriptedServer {
 public:
  struct Request {
    int number = 0;  ///< from 0
    std::string head;
    std::string body;

    bool asks_for(std::string_view path) const { return head.find(std::string(path) + " HTTP") < 200; }
  };
  /// Writes the reply; false once the client is gone.
  class Connection {
   public:
    explicit Connection(int fd) : fd_(fd) {}
    bool send(std::string_view bytes) const;
    bool reply(int status, std::string_view body, std::string_view more_headers = {}) const;
    /// Head of a stream, whose end is the connection's.
    bool begin_stream() const;
    bool event(std::string_view data) const;
    /// Whether the client hung up within so many milliseconds.
    bool client_left(int milliseconds) const;

   private:
    int fd_;
  };
  using Handler = std::function<void(const Request&, const Connection&)>;

  explicit ScriptedServer(Handler handler);
  ~ScriptedServer();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  std::vector<Request> requests() const;

 private:
  void accept_all();
  void serve(int fd);

  const Handler handler_;
  UniqueFd listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

/// A port of loopback at which nobody listens.
std::string refusing_url();

/// A chat completion as servers write it.
std::string completion_json(const std::vector<std::string>& answers, int prompt_tokens = 10,
                            int answer_tokens = 5);
/// A piece of one, for streams; `finish` empty: more follows.
std::string chunk_json(const std::string& text, const std::string& finish = {}, int index = 0);

}  // namespace lathe
