#include "merge/cli/pager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/cli/commands.h"

extern char** environ;

namespace trapline::cli {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// What the handler needs. NOLINTBEGIN(*-avoid-non-const-global-variables)
volatile pid_t running_pager = -1;
volatile int running_pipe = -1;
// NOLINTEND(*-avoid-non-const-global-variables)

void wait_for(pid_t pid) {
  (void)uninterrupted([pid] { return ::waitpid(pid, nullptr, 0); });
}

// The pager has the terminal until the user leaves it.
extern "C" void end_after_pager(int signal) {
  (void)::close(running_pipe);
  wait_for(running_pager);
  (void)std::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// With LESSSECURE less runs no program and opens no other file; newer ones let LESSSECURE_ALLOW
// take that back.
std::vector<std::string> environment_of(const PagerCommand& command) {
  std::vector<std::string> words;
  for (char** word = environ; *word != nullptr; ++word) {
    if (!command.secure || !std::string_view(*word).starts_with("LESS")) words.emplace_back(*word);
  }
  const auto add = [&](const char* name, std::string_view value) {
    if (command.secure || std::getenv(name) == nullptr)
      words.push_back(fmt::format("{}={}", name, value));
  };
  add("LESS", "FRX");
  add("LESSCHARSET", "utf-8");
  if (command.secure) words.emplace_back("LESSSECURE=1");
  return words;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// 0, or why it does not run.
int spawn(const PagerCommand& command, int input, pid_t& pid) {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = command.words, variables = environment_of(command);
  const int error = ::posix_spawnp(&pid, words.front().c_str(), &files, &attributes,
                                   pointers_to(words).data(), pointers_to(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

std::optional<PagerCommand> pager_command() {
  const std::string_view terminal = variable("TERM");
  if (terminal.empty() || terminal == "dumb") return std::nullopt;
  std::string name = "less";
  for (const char* one : {"TRAPLINE_PAGER", "PAGER"}) {
    if (std::getenv(one) == nullptr) continue;
    name = variable(one);
    break;
  }
  if (trimmed(name).empty() || trimmed(name) == "cat") return std::nullopt;
  if (::geteuid() == 0) {
    for (const char* less : {"/usr/bin/less", "/bin/less"})
      if (::access(less, X_OK) == 0) return PagerCommand{less, {less}, true};
    return std::nullopt;
  }
  constexpr std::string_view kOfShell = "|&;<>()$`\\\"' \t\n*?[#~=%";
  if (name.find_first_of(kOfShell) == name.npos) return PagerCommand{name, {name}};
  return PagerCommand{name, {"/bin/sh", "-c", name}};
}

PagedOutput::PagedOutput(PagerCommand command) : command_(std::move(command)) {
  winsize size{};
  (void)::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  rows_ = size.ws_row == 0 ? 24 : size.ws_row;
  columns_ = size.ws_col == 0 ? 80 : size.ws_col;
}

// The last row is the prompt's.
bool PagedOutput::fits(std::string_view text) {
  for (const char c : text) {
    if (in_escape_) {
      in_escape_ = std::isalpha(static_cast<unsigned char>(c)) == 0;
    } else if (c == '\x1b') {
      in_escape_ = true;
    } else if (c == '\n') {
      ++row_;
      column_ = 0;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && column_++ == columns_) {
      ++row_;
      column_ = 1;
    }
  }
  return row_ <= rows_;
}

void PagedOutput::start_pager() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    to_terminal_ = true;
    return;
  }
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  if (const int error = spawn(command_, out.get(), pid_); error != 0) {
    say(fmt::format("'{}': cannot run this pager: {}; set TRAPLINE_PAGER, or give --no-pager",
                    command_.name, std::strerror(error)));
    to_terminal_ = true;
    return;
  }
  pipe_ = std::move(in);
  running_pager = pid_;
  running_pipe = pipe_.get();
  (void)std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : kEnding) {
    if (std::signal(signal, end_after_pager) == SIG_IGN) (void)std::signal(signal, SIG_IGN);
  }
}

bool PagedOutput::write(int fd) {
  std::string_view rest = held_;
  while (!rest.empty()) {
    const ssize_t n = uninterrupted([&] { return ::write(fd, rest.data(), rest.size()); });
    if (n <= 0) {
      left_ = fd == pipe_.get();
      if (!left_) error_ = errno;
      return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  held_.clear();
  return true;
}

std::streamsize PagedOutput::xsputn(const char* text, std::streamsize count) {
  const std::string_view added(text, static_cast<std::size_t>(count));
  if (left_ || error_ != 0) return 0;
  held_ += added;
  if (pid_ < 0 && !to_terminal_ && !fits(added)) start_pager();
  constexpr std::size_t kAtOnce = std::size_t{16} << 10;
  if (held_.size() < kAtOnce) return count;
  const int fd = pid_ >= 0 ? pipe_.get() : to_terminal_ ? STDOUT_FILENO : -1;
  return fd < 0 || write(fd) ? count : 0;
}

PagedOutput::int_type PagedOutput::overflow(int_type c) {
  if (c == traits_type::eof()) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

Result<void> PagedOutput::finish() {
  if (!left_ && error_ == 0) (void)write(pid_ >= 0 ? pipe_.get() : STDOUT_FILENO);
  if (pid_ >= 0) {
    running_pipe = -1;
    pipe_.reset();
    wait_for(std::exchange(pid_, -1));
    for (const int signal : kEnding) {
      if (std::signal(signal, SIG_DFL) == SIG_IGN) (void)std::signal(signal, SIG_IGN);
    }
    (void)std::signal(SIGPIPE, SIG_DFL);
    if (left_) (void)::raise(SIGPIPE);
  }
  if (error_ != 0) return fail("stdout: cannot write: {}", std::strerror(error_));
  return {};
}

}  // namespace trapline::cli
