#include "merge/record/flight_control.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/session/session_folder.h"

namespace trapline::record {
namespace {

// A client has 20 slices of 50 ms to send its request. The time in which this process is stopped
// counts as one slice.
constexpr int kSlice = 50, kSlices = 20;

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns an address through the folder's descriptor, because a socket's path has at most 107 bytes
// and a folder's may have more.
sockaddr_un address_in(int folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/control", folder);
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

bool wait_for(int fd, int timeout_ms) {
  pollfd polled{fd, POLLIN, 0};
  return uninterrupted([&] { return ::poll(&polled, 1, timeout_ms); }) > 0;
}

bool asks(int client) {
  for (int slice = 0; slice < kSlices; ++slice)
    if (wait_for(client, kSlice)) return true;
  return false;
}

std::string receive(int fd) {
  std::string text(kMostMessage, '\0');
  const ssize_t size = ::recv(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

bool send_text(int fd, std::string text) {
  text.resize(std::min(text.size(), kMostMessage));
  return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

}  // namespace

Result<FlightControl> FlightControl::open(const Folder& folder) {
  auto at = folder.again();
  if (!at) return tl::unexpected(std::move(at).error());
  if (auto removed = at->remove("control"); !removed) return tl::unexpected(removed.error());
  UniqueFd socket = make_socket();
  const sockaddr_un address = address_in(at->fd());
  const ActAs as(at->identity());
  if (!as || !socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 8) != 0) {
    return fail("{}: {}", folder.path_of("control"), std::strerror(errno));
  }
  return FlightControl(std::move(*at), std::move(socket));
}

FlightControl::~FlightControl() {
  if (socket_) (void)folder_.remove("control");
}

void FlightControl::serve(
    const std::function<Result<std::string>(const std::string&)>& snapshot) const {
  const UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client || !asks(client.get())) return;
  const std::string why = receive(client.get());
  if (why.empty()) return;
  const auto done = snapshot(why.substr(1));
  (void)send_text(client.get(), done ? "+" + *done : "-" + done.error().message);
}

Result<std::string> ask_for_snapshot(const std::string& folder, const std::string& why) {
  if (why.size() >= kMostMessage) {
    return fail(ErrorKind::kUsage, "--why: {} bytes; at most {} are kept", why.size(),
                kMostMessage - 1);
  }
  const auto at = open_session_folder(folder);
  if (!at) {
    return fail("{}; name the folder that `trapline record --flight` was given with -o",
                at.error().message);
  }
  const UniqueFd socket = make_socket();
  const sockaddr_un address = address_in(at->fd());
  const auto connect_as_owner = [&] {
    const ActAs as(at->identity());
    return as && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                           sizeof address) == 0;
  };
  if (!socket || !connect_as_owner()) {
    const int cause = errno;
    if (cause == ENOENT || cause == ECONNREFUSED) {
      return fail(
          "{}: no flight recorder is at work there; start one: trapline record --flight 60s "
          "-o {}",
          folder, folder);
    }
    return fail("{}/control: {}", folder, std::strerror(cause));
  }
  // Sends a byte before the text, because an empty message would look like a closed connection.
  if (!send_text(socket.get(), "?" + why)) {
    return fail("{}/control: {}", folder, std::strerror(errno));
  }
  if (::geteuid() == 0) (void)keep_capabilities({});
  (void)wait_for(socket.get(), -1);
  const std::string answer = receive(socket.get());
  if (answer.starts_with('+')) return answer.substr(1);
  if (answer.starts_with('-')) return fail("{}", answer.substr(1));
  return fail("{}: the flight recorder ended before it answered", folder);
}

}  // namespace trapline::record
