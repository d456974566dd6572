#include "merge/report/dimensions.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::pair<std::string_view, Dimension> kDimensions[] = {
    {"reason", Dimension::kReason},
    {"detail", Dimension::kDetail},
    {"device", Dimension::kDevice},
    {"qemu-event", Dimension::kVmmEvent},
    {"function", Dimension::kFunction},
    {"stack", Dimension::kStack},
    {"vcpu", Dimension::kVcpu},
    {"vm", Dimension::kVm},
    {"cpu", Dimension::kCpu},
    {"nested", Dimension::kNested},
    {"preempted-by", Dimension::kPreemptedBy},
    {"blocked-on", Dimension::kBlockedOn},
    {"kernel-function", Dimension::kKernelFunction}};
constexpr Dimension kOfCalls[] = {Dimension::kFunction, Dimension::kStack, Dimension::kDevice,
                                  Dimension::kVmmEvent, Dimension::kVcpu,  Dimension::kVm};

Result<Dimension> parse_dimension(std::string_view name, std::string_view alone) {
  std::vector<std::string_view> names;
  for (const auto& [known, dimension] : kDimensions) {
    if (name == known) return dimension;
    names.push_back(known);
  }
  const auto near = nearest(name, names);
  return fail(ErrorKind::kUsage, "--by: unknown '{}'; {}there are {}{}", name,
              near.empty() ? std::string() : fmt::format("did you mean '{}'? ", near),
              dimension_names(),
              alone.empty() ? std::string() : fmt::format(", and {} alone", alone));
}

}  // namespace

Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions) {
  for (const auto& [name, dimension] : kDimensions) {
    const bool is_asked = std::ranges::find(dimensions, dimension) != dimensions.end();
    if (!is_asked || std::ranges::find(kOfCalls, dimension) != std::end(kOfCalls)) continue;
    return fail(ErrorKind::kUsage,
                "--by: '{}' is of VM exits, and this recording has none; calls of guest functions "
                "have function, stack, device, qemu-event, vcpu and vm",
                name);
  }
  return {};
}

std::string dimension_names() {
  std::string all;
  for (const auto& [name, dimension] : kDimensions) {
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

Result<std::vector<Dimension>> parse_dimensions(std::string_view text, std::string_view alone) {
  std::vector<Dimension> dimensions;
  for (const std::string_view name : split(text, ',')) {
    auto dimension = parse_dimension(trimmed(name), alone);
    if (!dimension) return tl::unexpected(std::move(dimension).error());
    if (std::find(dimensions.begin(), dimensions.end(), *dimension) != dimensions.end()) {
      return fail(ErrorKind::kUsage, "--by: '{}' is named twice", name);
    }
    dimensions.push_back(*dimension);
  }
  return dimensions;
}

}  // namespace trapline
