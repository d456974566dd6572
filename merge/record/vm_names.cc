#include "merge/record/vm_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/record/qemu_command.h"

namespace trapline::record {
namespace {

constexpr std::size_t kMostWordsBefore = 8;

// Returns the value of "--id=VALUE" or "--id VALUE".
std::string value_of(const std::vector<std::string>& words, const std::string& option) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with(option + '=')) return words[i].substr(option.size() + 1);
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
  }
  return {};
}

std::string kata_name(const std::string& sandbox) {
  return sandbox.empty() ? "" : "sandbox-" + sandbox;
}

// Returns Kata's name for the sandbox ID in "/run/vc/vm/ID/clh-api.sock"; empty for other paths.
std::string kata_name_of_socket(const std::string& path) {
  const std::filesystem::path socket(path);
  return socket.filename() == "clh-api.sock" ? kata_name(socket.parent_path().filename().string())
                                             : "";
}

// Returns "web01" for "qemu-3-web01", which is driver, number and name; else empty.
std::string libvirt_name(std::string_view machine) {
  const std::size_t first = machine.find('-'), second = machine.find('-', first + 1);
  const bool number = second != std::string_view::npos &&
                      parse_number(machine.substr(first + 1, second - first - 1)).has_value();
  return number ? std::string(machine.substr(second + 1)) : "";
}

// Returns the VM's name in one component of a cgroup's path. systemd writes - in a name as \x2d,
// and - in a pod's UID as _.
std::string name_of_part(std::string_view part) {
  constexpr std::string_view kMachine = "machine-", kPods = "kubepods", kPod = "pod";
  constexpr std::string_view kDash = "\\x2d", kScope = ".scope", kSlice = ".slice";
  if (part.starts_with(kMachine) && part.ends_with(kScope)) {
    std::string name(part.substr(kMachine.size(), part.size() - kMachine.size() - kScope.size()));
    for (std::size_t at = 0; (at = name.find(kDash, at)) != std::string::npos; ++at)
      name.replace(at, kDash.size(), "-");
    return libvirt_name(name);
  }
  if (const auto at = part.rfind(".libvirt-"); at != std::string_view::npos)
    return libvirt_name(part.substr(0, at));
  std::string uid;
  if (part.starts_with(kPods) && part.ends_with(kSlice)) {
    if (const auto at = part.rfind("-pod"); at != std::string_view::npos)
      uid = part.substr(at + 4, part.size() - at - 4 - kSlice.size());
    std::ranges::replace(uid, '_', '-');
  } else if (part.starts_with(kPod)) {
    uid = part.substr(kPod.size());
  }
  const bool is_uid = uid.size() >= 32 && uid.find_first_not_of("0123456789abcdef-") == uid.npos;
  return is_uid ? "pod-" + uid : "";
}

std::string cgroup_name(pid_t pid) {
  return vm_name_of_cgroup(read_text(fmt::format("/proc/{}/cgroup", pid)).value_or(""));
}

}  // namespace

std::string vm_name_of(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  // An unpacked QEMU is started through its own ld.so, with some words before its name.
  const auto looked_at = words.begin() + static_cast<std::ptrdiff_t>(
                                             std::min<std::size_t>(words.size(), kMostWordsBefore));
  const auto qemu = std::find_if(words.begin(), looked_at, is_qemu);
  if (qemu != looked_at) return qemu_vm_name({qemu, words.end()});
  const auto program = std::filesystem::path(words.front()).filename();
  if (program == "firecracker") return value_of(words, "--id");
  if (program == "cloud-hypervisor") return kata_name_of_socket(value_of(words, "--api-socket"));
  return program == "containerd-shim-kata-v2" ? kata_name(value_of(words, "-id")) : "";
}

std::string vm_name_of_cgroup(std::string_view proc_cgroup) {
  while (!proc_cgroup.empty()) {
    for (const std::string_view part : split(take_line(proc_cgroup), '/'))
      if (std::string name = name_of_part(part); !name.empty()) return name;
  }
  return {};
}

std::string vm_name_of_process(pid_t pid) {
  std::string name = vm_name_of(command_line_of(pid));
  return name.empty() ? cgroup_name(pid) : name;
}

std::vector<std::string> command_line_of(pid_t pid) {
  std::string text = read_text(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  if (text.empty()) return {};
  if (text.back() == '\0') text.pop_back();
  const auto words = split(text, '\0');
  return {words.begin(), words.end()};
}

std::vector<SessionVm> running_vms() {
  namespace fs = std::filesystem;
  std::vector<SessionVm> vms;
  for (const pid_t pid : numbers_in("/proc")) {
    std::error_code ended;
    for (fs::directory_iterator file(fmt::format("/proc/{}/fd", pid), ended), end;
         !ended && file != end; file.increment(ended)) {
      std::error_code closed;
      if (fs::read_symlink(file->path(), closed) != "anon_inode:kvm-vm") continue;
      vms.push_back({pid, vm_name_of_process(pid)});
      break;
    }
  }
  return vms;
}

bool VmNames::update(const std::map<pid_t, Thread>& threads) {
  bool changed = false;
  for (const auto& [tid, thread] : threads) {
    const auto known = names_.find(thread.pid);
    // A process that was looked at between fork and exec still had its parent's command line.
    if (known != names_.end() && (known->second.is_given || tid != thread.pid)) continue;
    std::string text = vm_name_of(command_line_of(thread.pid));
    const bool is_given = !text.empty();
    if (known == names_.end() && !is_given) text = cgroup_name(thread.pid);
    Name& name = names_[thread.pid];
    name.is_given = is_given;
    if (text.empty() || text == name.text) continue;
    name.text = std::move(text);
    changed = true;
  }
  return changed;
}

std::vector<SessionVm> VmNames::vms(const std::map<pid_t, Thread>& threads) const {
  std::set<pid_t> with_vcpus;
  for (const auto& [tid, thread] : threads)
    if (vcpu_of_name(thread.name) != kNoVcpu) with_vcpus.insert(thread.pid);
  std::vector<SessionVm> vms;
  for (const auto& [pid, name] : names_) {
    if (!name.text.empty() && with_vcpus.contains(pid)) vms.push_back({pid, name.text});
  }
  return vms;
}

}  // namespace trapline::record
