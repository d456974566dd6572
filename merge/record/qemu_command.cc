#include "merge/record/qemu_command.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

// QEMU accepts -option and --option alike.
bool is_option(std::string_view word, std::string_view option) {
  if (word.starts_with("--")) word.remove_prefix(1);
  return word == option;
}

bool has_option(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin() + 1, words.end(),
                     [&](const auto& word) { return is_option(word, option); });
}

// Returns whether the words contain -enable-kvm, -accel kvm…, or -machine …,accel=kvm; without any,
// QEMU uses TCG.
bool uses_kvm(const std::vector<std::string>& words) {
  if (has_option(words, "-enable-kvm")) return true;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (is_option(words[i], "-accel") && words[i + 1].starts_with("kvm")) return true;
    const bool machine = is_option(words[i], "-machine") || is_option(words[i], "-M");
    if (machine && words[i + 1].find("accel=kvm") != std::string::npos) return true;
  }
  return false;
}

bool file_contains(const std::string& path, std::string_view text) {
  std::ifstream file(path, std::ios::binary);
  std::string block, buffer(1u << 20, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    block.append(buffer, 0, static_cast<std::size_t>(file.gcount()));
    if (block.find(text) != std::string::npos) return true;
    block.erase(0, block.size() - std::min(block.size(), text.size()));
  }
  return false;
}

}  // namespace

bool has_log_backend(const std::string& program) { return file_contains(program, "trace:PATTERN"); }

std::string find_trace_events(const std::string& program) {
  std::error_code error;
  const fs::path real = fs::canonical(program, error);
  const fs::path prefix = real.parent_path().parent_path();
  // Tries the program's installation, its build folder, an unpacked package that a script starts,
  // and the distribution's QEMU.
  for (const fs::path& path :
       {prefix / "share/qemu/trace-events-all", real.parent_path() / "trace/trace-events-all",
        prefix / "root/usr/share/qemu/trace-events-all",
        fs::path(tracetool::kInstalledTraceEvents)}) {
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return {};
}

namespace {

// Doubles commas, as QEMU's option values require.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) text.append(c == ',' ? 2 : 1, c);
  return text;
}

void add(QemuAdditions& result, std::initializer_list<std::string> words) {
  result.words.insert(result.words.end(), words);
  result.added.push_back(fmt::format("{}", fmt::join(words, " ")));
}

// Adds debug-threads=on, so that vCPU threads are named CPU 0/KVM, CPU 0/TCG, ….
void name_threads(QemuAdditions& result) {
  for (std::size_t i = 1; i + 1 < result.words.size(); ++i) {
    if (!is_option(result.words[i], "-name")) continue;
    std::string& value = result.words[i + 1];
    if (value.find("debug-threads=") != std::string::npos) return;
    value += ",debug-threads=on";
    result.added.push_back("-name " + value);
    return;
  }
  add(result, {"-name", "debug-threads=on"});
}

void add_events(QemuAdditions& result, const QemuFacts& facts, const QemuOptions& requested) {
  if (requested.events.empty()) return;
  if (facts.tracing == QemuTracing::kNone) {
    result.warnings.push_back(
        "this QEMU has neither the log nor the ftrace backend, so its events cannot be recorded; "
        "-d help of one that can lists trace:PATTERN");
    return;
  }
  for (const std::string& pattern : requested.events) add(result, {"-trace", pattern});
  if (facts.tracing == QemuTracing::kFtrace) return;
  if (auto file = option_value(result.words, "-D")) {
    result.warnings.push_back(fmt::format(
        "QEMU's events go to {} as its own -D says, not into the recording; leave -D out", *file));
  } else {
    add(result, {"-D", requested.marker});
  }
  const auto message = option_value(result.words, "-msg");
  if (message && message->find("timestamp=on") != std::string::npos) {
    result.warnings.push_back(
        "-msg timestamp=on puts a prefix before the names of QEMU's events, so that they are not "
        "recognised; leave it out");
  }
}

// Splits an option's value; in QEMU's values a comma is written twice.
std::vector<std::string> parts_of(const std::string& value) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != ',') {
      parts.back() += value[i];
    } else if (i + 1 < value.size() && value[i + 1] == ',') {
      parts.back() += ',';
      ++i;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

}  // namespace

std::optional<std::string> option_value(const std::vector<std::string>& words,
                                        std::string_view option) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i)
    if (is_option(words[i], option)) return words[i + 1];
  return std::nullopt;
}

std::string part_of(const std::string& value, std::string_view key) {
  for (const std::string& part : parts_of(value))
    if (part.starts_with(key)) return part.substr(key.size());
  return {};
}

Result<Functions> parse_functions(std::string_view text) {
  for (const Functions functions : {Functions::kUftrace, Functions::kFtrace, Functions::kBoth})
    if (text == name_of(functions)) return functions;
  return fail(ErrorKind::kUsage, "--functions={}: one of uftrace, ftrace, both is expected",
              printable(text));
}

std::string_view name_of(Functions functions) {
  constexpr std::string_view kNames[] = {"none", "uftrace", "ftrace", "both"};
  return kNames[static_cast<std::size_t>(functions)];
}

bool is_qemu(const std::string& word) {
  const std::string name = fs::path(word).filename().string();
  return name.starts_with("qemu-system-") || name == "qemu-kvm" || name == "kvm";
}

QemuFacts ask_qemu(const std::string& program, const std::optional<User>& user) {
  QemuFacts facts;
  const std::string version = output_of({program, "--version"}, user);
  const auto at = version.find("version ");
  if (at != std::string::npos) {
    facts.version = std::string(trimmed(version.substr(at + 8, version.find('\n', at) - at - 8)));
  }
  facts.top_level_marker = file_contains(program, "trace_marker");
  if (output_of({program, "-d", "help"}, user).find("trace:PATTERN") != std::string::npos) {
    facts.tracing = QemuTracing::kLog;
  } else if (facts.top_level_marker) {
    facts.tracing = QemuTracing::kFtrace;
  }
  facts.trace_events = find_trace_events(program);
  return facts;
}

Result<QemuAdditions> complete_qemu(const std::vector<std::string>& words, const QemuFacts& facts,
                                    const QemuOptions& requested) {
  QemuAdditions result{words, {}, {}};
  if (has_option(words, "-daemonize")) {
    return fail(ErrorKind::kUsage,
                "-daemonize: the command would end at once, and the recording with it; leave it "
                "out, or start QEMU by itself and give --pid PID");
  }
  name_threads(result);
  add_events(result, facts, requested);
  if (requested.functions == Functions::kNone) return result;
  if (option_value(words, "-plugin").value_or("").find("libtrapline_plugin.so") !=
      std::string::npos) {
    return fail(ErrorKind::kUsage,
                "--functions: the command names the plugin itself; leave out its -plugin, or "
                "--functions");
  }
  if (uses_kvm(words)) {
    return fail(ErrorKind::kUsage,
                "--functions: QEMU has plugins only under emulation; give it -accel tcg, or leave "
                "--functions away");
  }
  std::string plugin = escaped(requested.plugin);
  if (in_directory(requested.functions)) plugin += ",out=" + escaped(requested.plugin_out);
  if (requested.functions != Functions::kUftrace) {
    plugin += ",output=" + std::string(name_of(requested.functions));
    if (!requested.instance.empty()) plugin += ",instance=" + escaped(requested.instance);
  }
  for (const std::string& file : requested.symbols) plugin += ",symbols=" + escaped(file);
  add(result, {"-plugin", plugin});
  return result;
}

std::string qemu_vm_name(const std::vector<std::string>& words) {
  if (const auto value = option_value(words, "-name")) {
    if (std::string guest = part_of(*value, "guest="); !guest.empty()) return guest;
    const std::string first = parts_of(*value).front();
    if (first.find('=') == first.npos && !first.empty()) return first;
  }
  return option_value(words, "-uuid").value_or("");
}

}  // namespace trapline::record
