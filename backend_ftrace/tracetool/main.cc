// trapline-tracetool: generates the code of a group of events from its trace-events files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/tracetool/emit.h"

namespace trapline::tracetool {
namespace {

struct Command {
  Options options;
  std::vector<std::string> backends{"log"};
  std::string directory = ".";
  std::string merged;  // path of the trace-events-all to write
  std::vector<std::string> files;
};

// Unchanged files keep their time, so that nothing is compiled again.
Result<void> write_file(const std::string& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return {};
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  return {};
}

// trace-events-all: the files one after the other, each under its own name.
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
  }
  for (const auto& [name, emit] : wanted) {
    if (auto written = write(name, emit); !written) return written;
  }
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
  if (options.probe_prefix.empty()) {
    options.probe_prefix = std::filesystem::path(options.binary).filename();
    std::replace(options.probe_prefix.begin(), options.probe_prefix.end(), '-', '.');
  }
  return {};
}

Result<void> run(Command& command) {
  if (auto ready = complete(command); !ready) return ready;
  std::vector<EventFile> files;
  for (const std::string& path : command.files) {
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
  return generate(command, events);
}

}  // namespace
}  // namespace trapline::tracetool

int main(int argc, char** argv) {
  using namespace trapline;
  tracetool::Command command;
  CLI::App app{"Generates C and C++ code for the events that QEMU trace-events files declare."};
  app.name("trapline-tracetool");
  app.add_option("--group", command.options.group, "Name of the group; root for the top folder")
      ->required();
  app.add_option("--backends", command.backends,
                 "Comma-separated: nop log simple ftrace syslog ust "
                 "dtrace")
      ->delimiter(',');
  app.add_option("--output-dir,-o", command.directory, "Where the generated files go");
  app.add_option("--events-all", command.merged, "Also write the merged trace-events file here");
  app.add_option("--provider", command.options.provider, "Provider name of UST and SDT probes");
  app.add_option("--binary", command.options.binary, "Path of the program, for the tapset");
  app.add_option("--probe-prefix", command.options.probe_prefix,
                 "Prefix of the tapset's probes (default: the program's name with . for -)");
  app.add_option("files", command.files, "trace-events files")->required();
  try {
    app.parse(argc, argv);
    const auto done = tracetool::run(command);
    if (done) return 0;
    fmt::print(stderr, "trapline-tracetool: {}\n", printable(done.error().message));
    return static_cast<int>(done.error().kind);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ErrorKind::kUsage);
  } catch (const std::exception& error) {
    fmt::print(stderr, "trapline-tracetool: {}\n", printable(error.what()));
    return 1;
  }
}
