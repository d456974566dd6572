#include "backend_ftrace/base/inherited.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "backend_ftrace/base/child.h"

namespace trapline {
namespace {

// In a child, whose descriptors and signals may be changed; true where `holds` returned true.
template <typename Holds>
bool in_child(const Holds& holds) {
  auto child = Child::start([&](UniqueFd&) { return holds() ? 0 : 1; });
  return child && child->wait() == 0;
}

bool is_handled_by(int signal, sighandler_t wanted) {
  struct sigaction found {};
  return ::sigaction(signal, nullptr, &found) == 0 && found.sa_handler == wanted;
}

TEST(InheritedTest, AFileOfOursIsNoStandardDescriptorThatWasClosed) {
  EXPECT_TRUE(in_child([] {
    for (const int fd : {0, 1, 2}) ::close(fd);
    fill_standard_descriptors();
    char byte = 0;
    const bool fail = ::read(0, &byte, 1) < 0 && ::write(1, "a", 1) < 0 && ::write(2, "a", 1) < 0;
    return fail && ::open("/dev/null", O_RDWR) > 2;
  }));
}

TEST(InheritedTest, OpenDescriptorsStay) {
  EXPECT_TRUE(in_child([] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[0], 0) < 0 || ::dup2(ends[1], 1) < 0) return false;
    ::close(2);
    fill_standard_descriptors();
    char byte = 0;
    return ::write(1, "a", 1) == 1 && ::read(0, &byte, 1) == 1 && byte == 'a';
  }));
}

TEST(InheritedTest, AProgramFindsTheSignalsThatTheCallerIgnores) {
  EXPECT_TRUE(in_child([] {
    for (const int signal : {SIGHUP, SIGCHLD, SIGPIPE, SIGINT}) ::signal(signal, SIG_IGN);
    take_over_signals();
    const bool ours = is_handled_by(SIGCHLD, SIG_DFL) && is_handled_by(SIGPIPE, SIG_DFL) &&
                      is_handled_by(SIGXFSZ, SIG_IGN) && is_ignored_by_caller(SIGHUP) &&
                      !is_ignored_by_caller(SIGUSR1);
    restore_signals();
    return ours && is_handled_by(SIGHUP, SIG_IGN) && is_handled_by(SIGCHLD, SIG_IGN) &&
           is_handled_by(SIGPIPE, SIG_IGN) && is_handled_by(SIGXFSZ, SIG_DFL) &&
           is_handled_by(SIGINT, SIG_DFL);
  }));
}

}  // namespace
}  // namespace trapline
