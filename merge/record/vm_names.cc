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

std::string firecracker_name(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("--id=")) return words[i].substr(5);
    if (words[i] == "--id" && i + 1 < words.size()) return words[i + 1];
  }
  return {};
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
  return program == "firecracker" ? firecracker_name(words) : "";
}

std::vector<std::string> command_line_of(pid_t pid) {
  std::vector<std::string> words;
  const std::string text = read_text(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\0', from), text.size());
    words.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return words;
}

std::vector<SessionVm> running_vms() {
  namespace fs = std::filesystem;
  std::vector<SessionVm> vms;
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const auto pid = parse_number(process.path().filename().string());
    std::error_code ended;
    for (fs::directory_iterator file(process.path() / "fd", ended), end;
         pid && !ended && file != end; file.increment(ended)) {
      std::error_code closed;
      if (fs::read_symlink(file->path(), closed) != "anon_inode:kvm-vm") continue;
      const auto number = static_cast<pid_t>(*pid);
      vms.push_back({number, vm_name_of(command_line_of(number))});
      break;
    }
  }
  return vms;
}

bool VmNames::update(const std::map<pid_t, Thread>& threads) {
  bool changed = false;
  for (const auto& [tid, thread] : threads) {
    const auto known = names_.find(thread.pid);
    // A process that was examined between fork and exec still had its parent's command line.
    if (known != names_.end() && !known->second.empty()) continue;
    if (tid != thread.pid && known != names_.end()) continue;
    std::string& name = names_[thread.pid];
    name = vm_name_of(command_line_of(thread.pid));
    changed |= !name.empty();
  }
  return changed;
}

std::vector<SessionVm> VmNames::vms(const std::map<pid_t, Thread>& threads) const {
  std::set<pid_t> with_vcpus;
  for (const auto& [tid, thread] : threads) {
    if (any_vmm().vcpu_of_thread(thread.name) != kNoVcpu) with_vcpus.insert(thread.pid);
  }
  std::vector<SessionVm> vms;
  for (const auto& [pid, name] : names_) {
    if (!name.empty() && with_vcpus.contains(pid)) vms.push_back({pid, name});
  }
  return vms;
}

}  // namespace trapline::record
