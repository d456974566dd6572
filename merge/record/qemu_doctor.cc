#include "merge/record/qemu_doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/text.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 1 << 20;

std::string first_in_path(const std::string& prefix) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    std::error_code error;
    std::string first;
    for (const auto& entry : fs::directory_iterator(fs::path(folder), error)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(prefix) || ::access(entry.path().c_str(), X_OK) != 0) continue;
      if (first.empty() || entry.path().string() < first) first = entry.path().string();
    }
    if (!first.empty()) return first;
  }
  return {};
}

// Returns the API version from the functions that the program exports, as plugin/qemu_api.cc does.
int plugin_api_of(const std::string& program, const std::string& version) {
  constexpr std::array<std::string_view, 5> kFunctions{
      "qemu_plugin_scoreboard_new", "qemu_plugin_register_vcpu_tb_exec_cond_cb",
      "qemu_plugin_mem_get_value", "qemu_plugin_write_register", "qemu_plugin_set_pc"};
  std::array<bool, kFunctions.size()> has{};
  std::ifstream file(program, std::ios::binary);
  std::string block, buffer(kBlock, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    block.append(buffer, 0, static_cast<std::size_t>(file.gcount()));
    for (std::size_t i = 0; i < has.size(); ++i)
      has[i] = has[i] || block.find(kFunctions[i]) != std::string::npos;
    block.erase(0, block.size() - std::min<std::size_t>(block.size(), 64));
  }
  if (!has[0]) return 0;
  int api = 2;
  while (api < 6 && has[static_cast<std::size_t>(api - 1)]) ++api;
  const auto dot = version.find('.');
  const auto major = parse_number(version.substr(0, dot)).value_or(0);
  const bool later_minor = dot != std::string::npos && version.substr(dot + 1, 1) != "0";
  return api == 6 && (major > 11 || (major == 11 && later_minor)) ? 7 : api;
}

}  // namespace

std::vector<Finding> check_qemu(const std::optional<QemuProgram>& qemu) {
  if (!qemu) {
    return {
        {"QEMU", Level::kLimited, "no qemu-system-* in PATH",
         "QEMU's events and the guest's functions of a COMMAND cannot be recorded; kernel events "
         "of virtual machines that run can",
         "", "trapline doctor --qemu PROGRAM names one elsewhere; docs/qemu.md"}};
  }
  std::vector<Finding> findings;
  const QemuFacts& facts = qemu->facts;
  if (facts.version.empty()) {
    return {{"QEMU", Level::kLimited, qemu->path + " says no version",
             "it cannot be recorded as QEMU", "",
             "trapline doctor --qemu PROGRAM names another one"}};
  }
  findings.push_back(
      {"QEMU", Level::kOk, fmt::format("{}, version {}", qemu->path, facts.version)});
  if (facts.tracing == QemuTracing::kNone) {
    findings.push_back({"QEMU's events", Level::kLimited, "neither the log nor the ftrace backend",
                        "exits have no QEMU function and no request, only the kernel's detail", "",
                        "build QEMU with --enable-trace-backends=log (docs/qemu.md)"});
  } else {
    findings.push_back({"QEMU's events", Level::kOk,
                        facts.tracing == QemuTracing::kLog ? "log backend" : "ftrace backend"});
  }
  if (qemu->has_plugins && qemu->plugin_api != 0) {
    findings.push_back(
        {"QEMU's plugins", Level::kOk, fmt::format("API version {}", qemu->plugin_api)});
  } else {
    findings.push_back({"QEMU's plugins", Level::kLimited,
                        qemu->has_plugins
                            ? "an API older than version 2, or a script that starts QEMU"
                            : "built without plugins",
                        "the guest's functions cannot be recorded (--functions)", "",
                        "the plugin needs QEMU 9.0 or later, built with --enable-plugins "
                        "(docs/install.md)"});
  }
  return findings;
}

std::optional<QemuProgram> find_qemu(const Host& host, const std::string& wanted) {
  QemuProgram qemu;
  qemu.path = wanted;
  const std::string native =
      processor_of(host) == Processor::kArm64 ? "qemu-system-aarch64" : "qemu-system-x86_64";
  for (const std::string& prefix : {native, std::string("qemu-kvm"), std::string("qemu-system-")})
    if (qemu.path.empty()) qemu.path = first_in_path(prefix);
  if (qemu.path.empty()) return std::nullopt;
  qemu.facts = ask_qemu(qemu.path, std::nullopt);
  qemu.has_plugins =
      output_of({qemu.path, "-help"}, std::nullopt).find("\n-plugin ") != std::string::npos;
  qemu.plugin_api = plugin_api_of(qemu.path, qemu.facts.version);
  return qemu;
}

}  // namespace trapline::record
