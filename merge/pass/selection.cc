#include "merge/pass/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::size_t kMostListed = 20;

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

// Those that the user may have meant come first.
std::vector<std::string> by_nearness(std::string_view wanted, const std::set<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view slip = nearest(wanted, views);
  std::string word = lower(wanted);
  std::erase_if(word, [](char c) { return c == '*' || c == '?'; });
  const auto distance = [&](const std::string& name) {
    if (name == slip) return 0;
    const auto at = word.empty() ? std::string::npos : lower(name).find(word);
    return at == 0 ? 1 : at != std::string::npos ? 2 : 3;
  };
  std::vector<std::string> all(names.begin(), names.end());
  std::ranges::stable_sort(all, {}, distance);
  return all;
}

}  // namespace

Error unknown_name(std::string_view option, std::string_view wanted, std::string_view fault,
                   const std::set<std::string>& names, std::string_view nothing) {
  std::string text = fmt::format("{} {}: {}; ", option, printable(wanted), fault);
  if (names.empty()) return {text += nothing, ErrorKind::kUsage};
  const std::vector<std::string> all = by_nearness(wanted, names);
  text += all.size() == 1 ? "there is " : "there are ";
  for (std::size_t i = 0; i < std::min(all.size(), kMostListed); ++i)
    text += (i == 0 ? "" : ", ") + all[i];
  if (all.size() > kMostListed) text += fmt::format(" and {} more", all.size() - kMostListed);
  return {std::move(text), ErrorKind::kUsage};
}

bool VcpuFilter::holds(const Vm& of, std::int32_t number) const {
  if (vcpu && number != *vcpu) return false;
  return vm.empty() || of.given == vm || of.id() == vm || of.id() == "~" + vm || of.text() == vm;
}

std::string VcpuFilter::text() const {
  std::string all = vm.empty() ? "" : "--vm " + printable(vm);
  if (vcpu) all += fmt::format("{}--vcpu {}", all.empty() ? "" : " and ", *vcpu);
  return all;
}

Result<void> VcpuFilter::check(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms,
                               std::string_view none) const {
  std::set<std::string> vm_names, numbers;
  const VcpuFilter of_vm{{}, vm};
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (holds(vms[i], threads[i].vcpu)) return {};
    vm_names.insert(vms[i].text());
    if (of_vm.holds(vms[i], threads[i].vcpu))
      numbers.insert(threads[i].vcpu == kNoVcpu ? "unknown" : std::to_string(threads[i].vcpu));
  }
  if (numbers.empty() && !vm.empty())
    return tl::unexpected(unknown_name("--vm", vm, "there is no such VM", vm_names, none));
  return tl::unexpected(unknown_name("--vcpu", vcpu ? std::to_string(*vcpu) : "",
                                     "there is no such vCPU", numbers, none));
}

std::vector<std::pair<std::string_view, std::string>> ExitFilter::options() const {
  std::vector<std::pair<std::string_view, std::string>> asked;
  for (const auto& [option, pattern] :
       {std::pair{"--reason", &reason}, std::pair{"--detail", &detail},
        std::pair{"--device", &device}, std::pair{"--function", &function}}) {
    if (!pattern->empty()) asked.emplace_back(option, *pattern);
  }
  return asked;
}

std::string ExitFilter::text() const {
  std::string all;
  for (const auto& [option, pattern] : options())
    all += fmt::format("{}{} {}", all.empty() ? "" : " and ", option, printable(pattern));
  return all;
}

}  // namespace trapline
