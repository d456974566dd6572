// trapline view: the report as a page, written to a temporary file and opened.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/cli/common.h"
#include "merge/render/page/page_data.h"

extern char** environ;

namespace trapline::cli {
namespace {

struct ViewArguments {
  PassOptions pass;
  SelectionOptions which;
  Output output;
  bool only_write = false;
};

// A file of its own in TMPDIR that no other user can read: it stays, for the browser to read.
Result<std::string> write_temporary(const std::string& text) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/trapline-XXXXXX.html",
                                 folder == nullptr || *folder == '\0' ? "/tmp" : folder);
  const UniqueFd file(::mkostemps(path.data(), 5, O_CLOEXEC));
  if (file.get() < 0) {
    return fail("{}: cannot create a file there: {}; name one with -o", path, std::strerror(errno));
  }
  auto written = write_all(file.get(), text, path + ": cannot be written");
  if (!written) return tl::unexpected(std::move(written).error());
  return path;
}

// The desktop's own program for pages, without a shell; false where there is none.
bool open_in_browser(const std::string& path) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return false;
  std::string program = "xdg-open", file = path;
  char* const words[] = {program.data(), file.data(), nullptr};
  pid_t pid = 0;
  return ::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, words, environ) == 0;
}

Result<int> view(ViewArguments& options) {
  if (auto checked = check_page(); !checked) return tl::unexpected(checked.error());
  if (auto parsed = options.which.parse(options.pass.which); !parsed)
    return tl::unexpected(std::move(parsed).error());
  if (auto checked = check(options.output, options.pass.input.paths); !checked)
    return tl::unexpected(checked.error());
  auto run = run_page(options.pass, page_options(options.pass.input, options.which),
                      ProgressLine().callback());
  if (!run) return tl::unexpected(std::move(run).error());
  const std::string json = page_json({&run->recording, 1});
  std::string path = options.output.file;
  if (path.empty()) {
    std::ostringstream text;
    print_page(json, text);
    auto written = write_temporary(text.str());
    if (!written) return tl::unexpected(std::move(written).error());
    path = *written;
  } else if (auto printed =
                 print_to(options.output, [&](std::ostream& out) { print_page(json, out); });
             !printed) {
    return tl::unexpected(std::move(printed).error());
  }
  fmt::print("{}\n", path);
  if (!options.only_write && !open_in_browser(path)) {
    say("there is no desktop to open it on; open this file in a browser");
  }
  if (!run->status) return tl::unexpected(std::move(run->status).error());
  return 0;
}

}  // namespace

void add_view(CLI::App& app, int& status) {
  auto options = std::make_shared<ViewArguments>();
  CLI::App* command = app.add_subcommand("view", "Open the report as a page in a browser");
  add_input_options(*command, options->pass.input);
  add_vcpus_and_time(*command, options->which, " (not requests and interrupts)");
  add_output(OptionGroup(*command, kOutput), options->output,
             "Write the page here, not to a temporary file");
  OptionGroup(*command, kRest)
      .flag("--no-open", options->only_write, "Write the page and print its name only");
  on_run(*command, status, options, view);
}

}  // namespace trapline::cli
