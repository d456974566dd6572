// A pager between the text of a command and the terminal, as git has it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <streambuf>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline::cli {

struct PagerCommand {
  std::string name;                // as the user wrote it
  std::vector<std::string> words;  // what is executed
  bool secure = false;             // less without its ways to a shell and to files
};

// TRAPLINE_PAGER, else PAGER, else less; nothing where that is empty or "cat", and on a terminal
// that cannot move its cursor. Root has less or nothing: what a user may run as root by sudo must
// not give him a shell.
[[nodiscard]] std::optional<PagerCommand> pager_command();

// Standard output that is a terminal. Text that fits the terminal goes there; of longer text the
// pager gets all, from the first line that does not fit on.
//
//   holds ──a line too many──> pager runs ──finish()──> ended
//     └──finish(), or no such program──> terminal
//
// While the pager runs, a signal that ends this process waits until the pager is left.
class PagedOutput : public std::streambuf {
 public:
  explicit PagedOutput(PagerCommand command);
  PagedOutput(const PagedOutput&) = delete;
  PagedOutput& operator=(const PagedOutput&) = delete;
  ~PagedOutput() override { (void)finish(); }

  // All is written and the pager is left. Where it was left before it had read all, this process
  // ends by SIGPIPE, as in `| head`.
  Result<void> finish();

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int_type overflow(int_type c) override;

 private:
  [[nodiscard]] bool fits(std::string_view text);
  void start_pager();
  bool write(int fd);

  PagerCommand command_;
  std::size_t rows_, columns_;        // of the terminal
  std::size_t row_ = 1, column_ = 0;  // where the held text ends on it
  bool in_escape_ = false;
  std::string held_;          // not yet written
  bool to_terminal_ = false;  // there is no such program
  bool left_ = false;         // the pager was, before it had read all
  int error_ = 0;             // of the terminal
  UniqueFd pipe_;
  pid_t pid_ = -1;
};

}  // namespace trapline::cli
