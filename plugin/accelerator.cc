#include "plugin/accelerator.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

namespace trapline {
namespace {

// Adds both a and b of "a:b".
void add_all(std::vector<std::string>& to, std::string_view list) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) to.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// Adds the value of accel= in "q35,accel=kvm:tcg,smm=off"; with `bare`, also a word without a key.
void add_value(std::vector<std::string>& to, std::string_view properties, bool bare) {
  constexpr std::string_view kKey = "accel=";
  for (bool first = true; !properties.empty(); first = false) {
    const std::size_t end = std::min(properties.find(','), properties.size());
    const std::string_view one = properties.substr(0, end);
    if (one.starts_with(kKey)) add_all(to, one.substr(kKey.size()));
    if (bare && first && one.find('=') == one.npos) add_all(to, one);
    properties.remove_prefix(std::min(end + 1, properties.size()));
  }
}

}  // namespace

std::vector<std::string> accelerators_of(std::span<const std::string> arguments) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    if (option.starts_with("--")) option.remove_prefix(1);
    const std::string_view value = i + 1 < arguments.size() ? arguments[i + 1] : std::string_view();
    if (option == "-enable-kvm") found.emplace_back("kvm");
    if (option == "-accel") add_value(found, value, true);
    if (option == "-machine" || option == "-M") add_value(found, value, false);
  }
  return found;
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string one; std::getline(file, one, '\0');) arguments.push_back(one);
  return arguments;
}

bool runs_under_kvm() {
  std::error_code error;
  for (std::filesystem::directory_iterator all("/proc/self/fd", error), end; !error && all != end;
       all.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(all->path(), gone);
    if (target == "/dev/kvm" || target.starts_with("anon_inode:kvm-v")) return true;
  }
  const std::vector<std::string> wanted = accelerators_of(command_line());
  return !wanted.empty() && wanted[0] == "kvm" && ::access("/dev/kvm", R_OK | W_OK) == 0;
}

}  // namespace trapline
