#include "merge/record/target.h"

#include <signal.h>
#include <unistd.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/text_file.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

constexpr off_t kLargestKernel = 256u << 20;  // a vmlinux with debug information is larger

bool is_small_elf(const UniqueFd& file) {
  std::array<char, 4> magic{};
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_size <= kLargestKernel &&
         ::pread(file.get(), magic.data(), magic.size(), 0) == 4 &&
         std::memcmp(magic.data(),
                     "\x7f"
                     "ELF",
                     4) == 0;
}

Result<void> check_options(const RecordOptions& options) {
  const bool command = !options.command.empty();
  const auto needs_qemu = [](const char* option) {
    return fail(ErrorKind::kUsage,
                "{}: only for a QEMU that trapline record starts: "
                "trapline record {} … -- qemu-system-…",
                option, option);
  };
  if (command && options.pid != 0) {
    return fail(ErrorKind::kUsage, "--pid and a command: give one of them");
  }
  const bool functions = options.functions != Functions::kNone;
  if (!command && functions) return needs_qemu("--functions");
  if (!command && !options.user.empty())
    return fail(ErrorKind::kUsage, "--user: says who runs COMMAND, and none is given after --");
  if (options.pid != 0 && ::kill(options.pid, 0) != 0 && errno == ESRCH) {
    return fail("--pid {}: there is no such process", options.pid);
  }
  return {};
}

Result<std::vector<std::string>> find_symbols(const RecordOptions& options, bool qemu) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& file : options.symbols) {
    if (const auto there = open_named_file(file, invoking_user()); !there) {
      return fail("--symbols {}", there.error().message);
    }
    files.push_back(fs::absolute(file, error).string());
  }
  if (!files.empty() || !qemu) return files;
  const auto kernel = option_value(options.command, "-kernel");
  const auto there = kernel ? open_named_file(*kernel, invoking_user()) : Result<UniqueFd>();
  if (there && is_small_elf(*there)) files.push_back(fs::absolute(*kernel, error).string());
  return files;
}

// Finds the plugin in a build folder or where it is installed.
Result<std::string> find_plugin() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string tried;
  for (const fs::path& place : {folder / "../plugin", folder / "../lib/trapline",
                                folder / ("../lib/" TRAPLINE_LIBRARY_ARCHITECTURE "/trapline")}) {
    const fs::path file = place.lexically_normal() / "libtrapline_plugin.so";
    if (fs::is_regular_file(file, error)) return file.string();
    tried += (tried.empty() ? "" : ", ") + file.string();
  }
  return fail("--functions: libtrapline_plugin.so is in none of {}", tried);
}

}  // namespace

Result<Target> look_at_target(const RecordOptions& options) {
  if (auto checked = check_options(options); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  Target target;
  if (!options.user.empty()) {
    auto found = assign(target.user, find_user(options.user));
    if (!found) return tl::unexpected(std::move(found).error());
  }
  if (!options.command.empty()) {
    auto program = find_program(options.command.front());
    if (!program) return tl::unexpected(std::move(program).error());
    target.qemu = is_qemu(options.command.front());
    if (target.qemu) target.facts = ask_qemu(*program, target.user);
  }
  if (options.functions != Functions::kNone && !target.qemu) {
    return fail(ErrorKind::kUsage, "--functions: {} is not a QEMU system emulator (qemu-system-…)",
                options.command.front());
  }
  if (options.monitor != nullptr) {
    const auto words = command_line_of(options.pid);
    const auto qemu = std::ranges::find_if(words, is_qemu);
    if (qemu != words.end()) target.facts.trace_events = find_trace_events(*qemu);
  }
  auto found = assign(target.symbols, find_symbols(options, target.qemu));
  if (!found) return tl::unexpected(std::move(found).error());
  return target;
}

Result<QemuAdditions> complete_command(const RecordOptions& options, const Target& target,
                                       const std::string& marker, const Instance& instance,
                                       const std::string& folder) {
  if (!target.qemu) return QemuAdditions{options.command, {}, {}};
  QemuOptions requested;
  requested.events = options.qemu_events;
  requested.marker = marker;
  requested.functions = options.functions;
  // A user who cannot pass through tracefs finds the instance's marker in the place of the
  // top-level one.
  if (!target.user) requested.instance = instance.name();
  if (options.functions != Functions::kNone) {
    std::error_code error;
    auto found = assign(requested.plugin, find_plugin());
    if (!found) return tl::unexpected(std::move(found).error());
    requested.plugin_out = (fs::absolute(folder, error) / "uftrace.data").lexically_normal();
    requested.symbols = target.symbols;
  }
  return complete_qemu(options.command, target.facts, requested);
}

void copy_companions(const Folder& session, const RecordOptions& options, const Target& target) {
  const auto copy = [&](const std::string& from, const std::string& to) -> Result<void> {
    const auto source = open_named_file(from, session.identity());
    if (!source) return tl::unexpected(source.error());
    const auto copied = session.create(to);
    if (!copied) return tl::unexpected(copied.error());
    std::vector<char> part(std::size_t{1} << 20);
    for (;;) {  // a loop, since sendfile() cannot copy files of /proc
      const ssize_t size = ::read(source->get(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return fail("{}", std::strerror(errno));
      if (size == 0) return {};
      const std::string_view bytes(part.data(), static_cast<std::size_t>(size));
      if (auto wrote = write_all(copied->get(), bytes, session.path_of(to)); !wrote) return wrote;
    }
  };
  const auto say = [&](const Result<void>& done, const std::string& file) {
    if (!done) options.say(fmt::format("{}: not copied: {}", file, done.error().message));
  };
  if (!target.symbols.empty()) {
    if (auto made = session.make_folder("symbols"); !made) options.say(made.error().message);
  }
  for (const std::string& file : target.symbols)
    say(copy(file, "symbols/" + fs::path(file).filename().string()), file);
  const std::string& events = target.facts.trace_events;
  if (!events.empty()) say(copy(events, "trace-events-all"), events);
}

}  // namespace trapline::record
