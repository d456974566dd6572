#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "merge/live/prometheus.h"

namespace trapline::live {
namespace {

constexpr unsigned kConnections = 256, kSeconds = 2;  // 4 MiB for all their requests
constexpr std::size_t kRequestBytes = 16u << 10;

MHD_Response* response_of(std::string_view text) {
  MHD_Response* response = ::MHD_create_response_from_buffer(
      text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (response != nullptr)
    (void)::MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
  return response;
}

MHD_Result refuse(MHD_Connection* connection, unsigned status) {
  MHD_Response* response = response_of("GET /metrics\n");
  if (response == nullptr) return MHD_NO;
  const MHD_Result queued = ::MHD_queue_response(connection, status, response);
  ::MHD_destroy_response(response);
  return queued;
}

// Accepts IPv4, or IPv6 in brackets.
bool parse(std::string_view host, std::uint16_t port, sockaddr_storage& address) {
  const bool v6 = host.starts_with('[') && host.ends_with(']');
  const std::string name(v6 ? host.substr(1, host.size() - 2) : host);
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address);
  address.ss_family = v6 ? AF_INET6 : AF_INET;
  (v6 ? ipv6->sin6_port : ipv4->sin_port) = htons(port);
  void* const to = v6 ? static_cast<void*>(&ipv6->sin6_addr) : &ipv4->sin_addr;
  return ::inet_pton(address.ss_family, name.c_str(), to) == 1;
}

// Serves one text per interval, which all clients share, however slowly they read.
class Daemon final : public MetricsServer {
 public:
  Daemon() = default;
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon() override {
    if (http != nullptr) ::MHD_stop_daemon(http);
    if (current_ != nullptr) ::MHD_destroy_response(current_);
  }
  static MHD_Result handle(void* self, MHD_Connection* connection, const char* url,
                           const char* method, const char*, const char*, std::size_t*, void**) {
    if (std::string_view(method) != "GET" && std::string_view(method) != "HEAD")
      return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
    if (std::string_view(url) != "/metrics") return refuse(connection, MHD_HTTP_NOT_FOUND);
    auto& daemon = *static_cast<Daemon*>(self);
    const std::lock_guard lock(daemon.mutex_);
    return daemon.current_ == nullptr
               ? MHD_NO
               : ::MHD_queue_response(connection, MHD_HTTP_OK, daemon.current_);
  }
  void set(std::string_view text) override {
    MHD_Response* next = response_of(text);
    if (next == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (current_ != nullptr) ::MHD_destroy_response(current_);
    current_ = next;
  }

  MHD_Daemon* http = nullptr;

 private:
  std::mutex mutex_;
  MHD_Response* current_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::open(const std::string& text) {
  const auto colon = text.rfind(':');
  const std::string_view all = text;
  const std::string_view host =
      colon == std::string::npos || colon == 0 ? "127.0.0.1" : all.substr(0, colon);
  const auto port = parse_number(colon == std::string::npos ? all : all.substr(colon + 1));
  sockaddr_storage address{};
  if (!port || *port == 0 || *port > 65535 ||
      !parse(host, static_cast<std::uint16_t>(*port), address)) {
    return fail(ErrorKind::kUsage,
                "--listen {}: an address and a port are expected: 127.0.0.1:9464, [::1]:9464, or "
                "9464 for the loopback address",
                printable(text));
  }
  auto server = std::make_unique<Daemon>();
  const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                         (address.ss_family == AF_INET6 ? unsigned{MHD_USE_IPv6} : 0u);
  errno = 0;
  server->http =
      ::MHD_start_daemon(flags, static_cast<std::uint16_t>(*port), nullptr, nullptr, Daemon::handle,
                         server.get(), MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
                         kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSeconds,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytes, MHD_OPTION_END);
  if (server->http == nullptr)
    return fail("--listen {}: {}", printable(text),
                errno == 0 ? "it cannot be listened to" : std::strerror(errno));
  return server;
}

}  // namespace trapline::live
