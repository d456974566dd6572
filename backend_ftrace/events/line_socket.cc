#include "backend_ftrace/events/line_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace trapline {
namespace {

constexpr int kPatience = 10'000;  // ms for one answer
constexpr std::size_t kMaxLine = 16u << 20;

}  // namespace

Result<LineSocket> LineSocket::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail("{}: the path is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail("{}: {}; is the program running with this socket?", path, std::strerror(errno));
  }
  return LineSocket(path, std::move(fd));
}

Result<void> LineSocket::send(std::string text, int file) {
  text += '\n';
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  for (std::string_view rest = text; !rest.empty();) {
    iovec part{const_cast<char*>(rest.data()), rest.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (file >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof file);
      std::memcpy(CMSG_DATA(head), &file, sizeof file);
    }
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return fail("{}: {}", path_, std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(sent));
    file = -1;  // the descriptor went with the first bytes
  }
  return {};
}

Result<std::string> LineSocket::receive() {
  for (std::size_t looked_at = line_;;) {
    if (const auto end = buffer_.find('\n', looked_at); end != std::string::npos) {
      std::string line = buffer_.substr(line_, end - line_);
      line_ = end + 1;
      return line;
    }
    buffer_.erase(0, std::exchange(line_, 0));
    looked_at = buffer_.size();
    if (buffer_.size() > kMaxLine) return fail("{}: an answer that does not end", path_);
    pollfd ready{fd_.get(), POLLIN, 0};
    if (const int count = ::poll(&ready, 1, kPatience); count < 0 && errno == EINTR)
      continue;
    else if (count <= 0)
      return fail("{}: no answer", path_);
    char bytes[65536];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return fail("{}: the program closed the connection", path_);
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

pid_t LineSocket::peer() const {
  ucred process{};
  socklen_t size = sizeof process;
  return ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &process, &size) == 0 ? process.pid : 0;
}

}  // namespace trapline
