// trapline-tracetool: generates the code of a group of events from its trace-events files. With
// --format it does so like the generator of QEMU's own tree, one file per call.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "backend_ftrace/base/message.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/usage_text.h"
#include "backend_ftrace/tracetool/emit_qemu.h"

namespace trapline::tracetool {
namespace {

constexpr std::string_view kProgram = "trapline-tracetool";

struct Command {
  Options options;
  std::vector<std::string> backends{"log"};
  std::string directory = ".";
  std::string merged;  // path of the trace-events-all to write
  std::vector<std::string> files;
  // Set as QEMU's build calls the program: a format, and the output as the last of several `files`.
  std::string format;
  bool list_backends = false;
  bool list_formats = false;
  bool check_backends = false;
  // Type and name of the program to trace, as QEMU passes them: "system", "x86_64". The probes of a
  // tapset are named after them.
  std::string target_type, target_name;
};

constexpr std::string_view kBackendNames = "nop, dtrace, ftrace, log, simple, syslog, ust";

// Writes a file, and makes its folder if that is missing. Unchanged files keep their time, so that
// nothing is compiled again.
Result<void> write_file(const std::string& path, const std::string& text) {
  std::error_code error;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error) return fail("{}: its folder cannot be made: {}", path, error.message());
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return {};
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  return {};
}

// Writes trace-events-all: the files one after the other, each under its own name.
Result<void> write_merged(const Command& command) {
  std::string text;
  for (const std::string& path : command.files) {
    std::ifstream stream(path, std::ios::binary);
    text += fmt::format("# {}\n", path);
    text.append(std::istreambuf_iterator<char>(stream), {});
    if (!text.ends_with('\n')) text += '\n';
  }
  return write_file(command.merged, text);
}

using Emitter = void (*)(const Options&, std::span<const Declared>, Output&);

Result<void> generate(const Command& command, std::span<const Declared> events) {
  const Options& options = command.options;
  const auto write = [&](const std::string& name, Emitter emit) -> Result<void> {
    Output out(fmt::format("{}/{}", command.directory, name));
    emit(options, events, out);
    return write_file(out.path(), out.text());
  };
  const std::string& group = options.group;
  std::vector<std::pair<std::string, Emitter>> wanted{
      {fmt::format("trace-{}.h", group), emit_header},
      {fmt::format("trace-{}.c", group), emit_source}};
  if (options.has(Backend::kUst)) {
    wanted.emplace_back(fmt::format("trace-ust-{}.h", group), emit_ust_header);
    wanted.emplace_back(
        fmt::format("trace-ust-{}.c", group),
        [](const Options& o, std::span<const Declared>, Output& out) { emit_ust_source(o, out); });
  }
  if (options.has(Backend::kDtrace)) {
    wanted.emplace_back(fmt::format("{}.stp", group), emit_tapset);
    wanted.emplace_back(fmt::format("{}-log.stp", group), emit_log_tapset);
    wanted.emplace_back(fmt::format("trace-dtrace-{}.dtrace", group), emit_probes);
  }
  for (const auto& [name, emit] : wanted) {
    if (auto written = write(name, emit); !written) return written;
  }
  return {};
}

const QemuFormat* find_format(std::string_view name) {
  for (const QemuFormat& format : qemu_formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::string format_names() {
  std::string names;
  for (const QemuFormat& format : qemu_formats()) {
    names += (names.empty() ? "" : ", ");
    names += format.name;
  }
  return names;
}

// Returns where to write. A single file, or - as the last, means standard output, as in older
// versions of QEMU's generator.
std::string output_of(const Command& command) {
  return command.files.size() == 1 ? "-" : command.files.back();
}

// Compiles the probes to an object with SystemTap's `dtrace -G`.
Result<void> compile_probes(const Output& out) {
  const std::string probes = out.path() + ".dtrace";
  if (auto written = write_file(probes, out.text()); !written) return written;
  const char* const words[] = {"dtrace",           "-G",   "-s", probes.c_str(), "-o",
                               out.path().c_str(), nullptr};
  pid_t child = 0;
  int status = 0;
  const int error =
      ::posix_spawnp(&child, words[0], nullptr, nullptr, const_cast<char* const*>(words), environ);
  const bool waited = error == 0 && ::waitpid(child, &status, 0) == child;
  std::filesystem::remove(probes);
  if (error == ENOENT) return fail("--format=o needs dtrace(1): apt-get install systemtap-sdt-dev");
  if (error != 0) return fail("dtrace: {}", std::strerror(error));
  if (!waited || status != 0)
    return fail("{}: dtrace -G failed; --format=d has its input", out.path());
  return {};
}

// Writes even an unchanged file, since QEMU's build compares times.
Result<void> generate_format(const Command& command, std::span<const Declared> events) {
  Output out(output_of(command));
  find_format(command.format)->emit(command.options, events, out);
  if (command.format == "o") return compile_probes(out);
  if (out.path() == "-") {
    fmt::print("{}", out.text());
    if (std::fflush(stdout) == 0) return {};
    return fail("the standard output cannot be written: {}", std::strerror(errno));
  }
  std::ofstream stream(out.path(), std::ios::binary | std::ios::trunc);
  stream << out.text();
  stream.close();
  if (!stream) return fail("{}: cannot be written: {}", out.path(), std::strerror(errno));
  return {};
}

Result<void> check_format(const Command& command) {
  const auto usage = [](std::string text) -> Result<void> {
    return fail(ErrorKind::kUsage, "{}", text);
  };
  const QemuFormat* format = find_format(command.format);
  if (format == nullptr) {
    return usage(
        fmt::format("unknown format '{}'; expected one of {}", command.format, format_names()));
  }
  if (command.files.empty() || command.files.front() == "-") {
    return usage(
        "--format needs trace-events files and, as the last argument, the output file; of one "
        "file, or with - as the last, it writes to the standard output");
  }
  if (format->name == "o" && output_of(command) == "-")
    return usage("--format=o needs the output file as the last argument");
  if (format->wants_binary && command.options.binary.empty())
    return usage(fmt::format("--format={} needs --binary", format->name));
  if (format->wants_probe_prefix && command.options.probe_prefix.empty())
    return usage(fmt::format("--format={} needs --probe-prefix, or --target-type and --target-name",
                             format->name));
  return {};
}

Result<void> complete(Command& command) {
  for (const std::string& name : command.backends) {
    const auto backend = backend_from_name(name);
    if (!backend) {
      return fail(ErrorKind::kUsage,
                  "unknown backend '{}'; expected nop, log, simple, ftrace, "
                  "syslog, ust or dtrace",
                  name);
    }
    command.options.backends.push_back(*backend);
  }
  for (char& c : command.options.group) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word) c = '_';
  }
  Options& options = command.options;
  if (!command.format.empty()) {
    options.for_qemu = true;
    options.provider = "qemu";
    if (options.probe_prefix.empty() && !command.target_type.empty() &&
        !command.target_name.empty())
      options.probe_prefix = fmt::format("qemu.{}.{}", command.target_type, command.target_name);
    return check_format(command);
  }
  if (options.binary.empty()) options.binary = "program";
  if (options.probe_prefix.empty()) {
    options.probe_prefix = std::filesystem::path(options.binary).filename();
    std::replace(options.probe_prefix.begin(), options.probe_prefix.end(), '-', '.');
  }
  return {};
}

Result<void> run(Command& command) {
  if (auto ready = complete(command); !ready) return ready;
  std::vector<EventFile> files;
  std::span<const std::string> inputs(command.files);
  if (!command.format.empty() && inputs.size() > 1) inputs = inputs.first(inputs.size() - 1);
  for (const std::string& path : inputs) {
    auto file = read_trace_events(path);
    if (!file) return tl::unexpected(file.error());
    files.push_back(std::move(*file));
  }
  std::size_t errors = 0;
  const auto print = [&](const Diagnostic& diagnostic) {
    fmt::print(stderr, "{}\n", printable(diagnostic.text()));
    ++errors;
  };
  for (const EventFile& file : files) {
    for (const Diagnostic& diagnostic : file.errors) print(diagnostic);
  }
  for (const Diagnostic& diagnostic : find_duplicates(files)) print(diagnostic);
  if (errors != 0) {
    return fail(ErrorKind::kDamaged, "{} error{}; nothing was generated", errors,
                errors == 1 ? "" : "s");
  }
  std::vector<Declared> events;
  for (const EventFile& file : files) {
    for (const Event& event : file.events) events.push_back({&event, &file.name});
  }
  if (!command.merged.empty()) {
    if (auto written = write_merged(command); !written) return written;
  }
  return command.format.empty() ? generate(command, events) : generate_format(command, events);
}

// Handles options that only print. Returns the exit status, or nullopt if there is code to
// generate.
std::optional<int> answer(const Command& command) {
  if (command.list_backends) fmt::print("{}\n", kBackendNames);
  if (command.list_formats) fmt::print("{}\n", format_names());
  if (command.list_backends || command.list_formats) return 0;
  if (!command.check_backends) return std::nullopt;
  const auto& names = command.backends;
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return backend_from_name(name).has_value(); })
             ? 0
             : 1;
}

void add_options(CLI::App& app, Command& command) {
  Options& options = command.options;
  app.add_option("--group", options.group, "Name of the group; root for the top folder");
  app.add_option("--backends,--backend", command.backends,
                 fmt::format("Comma-separated: {}", kBackendNames))
      ->delimiter(',')
      ->allow_extra_args(false);  // the next word is a file
  app.add_option("--output-dir,-o", command.directory, "Where the generated files go");
  app.add_option("--events-all", command.merged, "Also write the merged trace-events file here");
  app.add_option("--provider", options.provider, "Provider name of UST and SDT probes");
  app.add_option("--binary", options.binary, "Path of the program, for the tapset");
  app.add_option("--probe-prefix", options.probe_prefix,
                 "Prefix of the tapset's probes (default: the program's name with . for -)");
  app.add_option("files", command.files, "trace-events files; with --format also the output file");
  constexpr const char* kQemu = "In place of QEMU's scripts/tracetool.py";
  app.add_option("--format", command.format,
                 fmt::format("Write one file of QEMU's tree: {}", format_names()))
      ->group(kQemu);
  app.add_flag("--list-backends", command.list_backends, "Print the backends")->group(kQemu);
  app.add_flag("--list-formats", command.list_formats, "Print the formats")->group(kQemu);
  app.add_flag("--check-backends", command.check_backends, "Exit with 1 if a backend is unknown")
      ->group(kQemu);
  app.add_option("--target-type", command.target_type,
                 "system or user: the tapset's probes are qemu.TYPE.NAME.EVENT")
      ->group(kQemu);
  app.add_option("--target-name", command.target_name, "x86_64, aarch64, ...")->group(kQemu);
}

}  // namespace
}  // namespace trapline::tracetool

int main(int argc, char** argv) {
  using namespace trapline;
  tracetool::Command command;
  CLI::App app{"Generates C and C++ code for the events that QEMU trace-events files declare."};
  app.name(std::string(tracetool::kProgram));
  tracetool::add_options(app, command);
  try {
    app.parse(argc, argv);
    if (const auto status = tracetool::answer(command)) return *status;
    if (command.options.group.empty()) throw CLI::RequiredError("--group");
    if (command.files.empty()) throw CLI::RequiredError("a trace-events file");
    const auto done = tracetool::run(command);
    if (done) return 0;
    say(tracetool::kProgram, done.error().message);
    return static_cast<int>(done.error().kind);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    say(tracetool::kProgram,
        usage_text(tracetool::kProgram, argc > 1 ? argv[1] : "", error.what()));
    return static_cast<int>(ErrorKind::kUsage);
  } catch (const std::exception& error) {
    say(tracetool::kProgram, error.what());
    return 1;
  }
}
