#include "merge/worker/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trapline::worker {
namespace {

constexpr int kSocket = 0;

// Fills all of `into`; a descriptor that comes with the bytes goes to `file`.
void receive(std::span<std::byte> into, UniqueFd& file) {
  while (!into.empty()) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) ::_exit(0);
    if (const cmsghdr* with = CMSG_FIRSTHDR(&message);
        with != nullptr && with->cmsg_type == SCM_RIGHTS) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(with), sizeof descriptor);
      file.reset(descriptor);
    }
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::send(kSocket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) ::_exit(0);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

}  // namespace

Request next_request() {
  MessageHead head{};
  Request request;
  receive(std::as_writable_bytes(std::span(&head, 1)), request.file);
  request.kind = head.kind;
  request.payload.resize(head.size);
  receive(request.payload, request.file);
  return request;
}

void answer(MessageKind kind, std::span<const std::byte> payload) {
  const MessageHead head{kind, static_cast<std::uint32_t>(payload.size())};
  send(std::as_bytes(std::span(&head, 1)));
  send(payload);
}

void refuse(ErrorKind kind, std::string_view reason) {
  MessageWriter text;
  text.number(static_cast<std::uint32_t>(kind));
  text.text(reason);
  answer(MessageKind::kRefused, text.bytes());
}

}  // namespace trapline::worker
