// A worker that does what a worker must not: the real one's confinement and channel around tasks of
// its own. Its first request names what to do.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "merge/worker/channel.h"
#include "merge/worker/confine.h"

namespace {

using namespace trapline;
using namespace trapline::worker;

void say(std::string_view text) {
  MessageWriter words;
  words.text(text);
  answer(MessageKind::kTexts, words.bytes());
}

void misbehave(std::string_view how) {
  if (how == "answer") return say("text");
  if (how == "crash") std::abort();
  if (how == "end") ::_exit(5);
  if (how == "close") {
    ::close(0);
    while (::getpid() != 0) {
    }
  }
  if (how == "loop") {
    while (::getpid() != 0) {
    }
  }
  if (how == "allocate") {
    for (std::vector<std::string> all;;) all.emplace_back(1u << 20, 'x');
  }
  if (how == "open") return say(::open("/etc/passwd", O_RDONLY) < 0 ? "refused" : "open");
  if (how == "memfd") (void)::memfd_create("memory", 0);
  if (how == "socket") (void)::socket(AF_INET, SOCK_STREAM, 0);
  if (how == "fork") (void)::fork();
  if (how == "execute") {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say(page == MAP_FAILED ? "refused" : "mapped");
  }
  if (how == "too long") {
    const MessageHead head{MessageKind::kTexts, kLargestMessage + 1};
    (void)::send(0, &head, sizeof head, 0);
    for (;;) ::sched_yield();
  }
  if (how == "half") {
    const MessageHead head{MessageKind::kTexts, 100};
    (void)::send(0, &head, sizeof head, 0);
    ::_exit(0);
  }
  if (how == "other kind") answer(MessageKind::kEnd, {});
  if (how == "refuse") refuse(ErrorKind::kDamaged, "is not \x1b[2J what it should be");
}

}  // namespace

int main(int, char** argv) {
  std::set_new_handler([] { ::_exit(kNoMemoryStatus); });
  (void)confine(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
  for (;;) {
    const Request request = next_request();
    MessageReader words(request.payload);
    misbehave(words.text().value_or(""));
  }
}
