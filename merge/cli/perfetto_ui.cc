#include "merge/cli/perfetto_ui.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <string_view>

#include "merge/cli/browser.h"
#include "merge/cli/commands.h"

namespace trapline::cli {
namespace {

constexpr std::uint16_t kPort = 9001;  // the UI's policy lets it read from no other
constexpr const char* kUi = "https://ui.perfetto.dev";
constexpr unsigned kConnections = 8, kSeconds = 10;

struct Served {
  std::string path;  // with a part that nobody guesses: other users of this machine can connect
  MHD_Response *trace = nullptr, *empty = nullptr;
  std::promise<void> done;
  bool is_done = false;
};

MHD_Result handle(void* self, MHD_Connection* connection, const char* url, const char* method,
                  const char*, const char*, std::size_t*, void** request) {
  auto& served = *static_cast<Served*>(self);
  // A page of another site whose name resolves to this machine sends that name as its Host.
  const char* const host = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
  const bool is_ours = host != nullptr && host == fmt::format("127.0.0.1:{}", kPort);
  if (!is_ours || url != served.path)
    return ::MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, served.empty);
  if (std::string_view(method) == "OPTIONS")
    return ::MHD_queue_response(connection, MHD_HTTP_NO_CONTENT, served.empty);
  if (std::string_view(method) != "GET")
    return ::MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, served.empty);
  *request = &served;
  return ::MHD_queue_response(connection, MHD_HTTP_OK, served.trace);
}

void on_completed(void*, MHD_Connection*, void** request, MHD_RequestTerminationCode how) {
  auto* const served = static_cast<Served*>(*request);
  if (served == nullptr || how != MHD_REQUEST_TERMINATED_COMPLETED_OK || served->is_done) return;
  served->is_done = true;
  served->done.set_value();
}

Result<std::string> secret() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail("getrandom: {}", std::strerror(errno));
  std::string text;
  for (const unsigned byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

void allow_the_ui(MHD_Response* response) {
  for (const auto& [name, value] : {std::pair{"Access-Control-Allow-Origin", kUi},
                                    {"Access-Control-Allow-Private-Network", "true"},
                                    {"Cache-Control", "no-store"}})
    (void)::MHD_add_response_header(response, name, value);
}

}  // namespace

Result<UniqueFd> listen_for_perfetto() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int again = 1;  // listens although connections of the last recording linger
  if (!listening ||
      ::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &again, sizeof again) != 0 ||
      ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening.get(), static_cast<int>(kConnections)) != 0) {
    return fail(
        "port {} of this machine, from which {} reads, cannot be listened to: {}; end what "
        "has it, or write a file: trapline export --format perfetto -o FILE",
        kPort, kUi, std::strerror(errno));
  }
  return listening;
}

Result<void> show_in_perfetto(const std::string& path, UniqueFd listening) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return fail("{}: {}", path, std::strerror(errno));
  (void)::unlink(path.c_str());
  auto name = secret();
  if (!name) return tl::unexpected(std::move(name).error());
  Served served;
  served.path = fmt::format("/{}/trapline.pftrace", *name);
  served.empty = ::MHD_create_response_from_buffer(0, nullptr, MHD_RESPMEM_PERSISTENT);
  served.trace =
      ::MHD_create_response_from_fd64(static_cast<std::uint64_t>(about.st_size), file.release());
  allow_the_ui(served.empty);
  allow_the_ui(served.trace);
  MHD_Daemon* const http = ::MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, kPort, nullptr, nullptr, handle, &served,
      MHD_OPTION_LISTEN_SOCKET, listening.get(), MHD_OPTION_NOTIFY_COMPLETED, on_completed, nullptr,
      MHD_OPTION_CONNECTION_LIMIT, kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSeconds,
      MHD_OPTION_END);
  if (http == nullptr) return fail("the server for {} does not start", kUi);
  (void)listening.release();  // the daemon closes it
  const std::string page = fmt::format("{}/#!/?url=http://127.0.0.1:{}{}", kUi, kPort, served.path);
  fmt::print("{}\n", page);
  (void)std::fflush(stdout);
  if (const std::string reason = open_in_browser(page); !reason.empty())
    say(reason + "; open this address in a browser of this machine");
  served.done.get_future().wait();
  ::MHD_stop_daemon(http);
  ::MHD_destroy_response(served.trace);
  ::MHD_destroy_response(served.empty);
  return {};
}

}  // namespace trapline::cli
