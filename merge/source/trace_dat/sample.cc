#include "merge/source/trace_dat/sample.h"

#include <algorithm>
#include <limits>

#include "merge/source/trace_dat/cpu_events.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kBufferSize = 64u << 10;
constexpr std::uint64_t kEventsPerLook = 2048;

// What one event adds. Types are told apart by name once, here by number.
class Looker {
 public:
  explicit Looker(const Formats& formats) : schemas_(formats.schemas()) {
    for (std::size_t type = 0; type < schemas_.size(); ++type) {
      const auto name = formats.name(static_cast<std::uint16_t>(type));
      by_type_.push_back(capability_of(name));
      if (by_type_.back() == nullptr) continue;
      possible_.push_back(by_type_.back());
      if (name.starts_with("kvm:")) possible_.push_back(&Capabilities::any_kvm);
    }
  }

  // Whether all has been seen that events of these formats can add.
  [[nodiscard]] bool is_complete() const {
    return std::ranges::all_of(
        possible_, [this](bool Capabilities::*capability) { return capabilities.*capability; });
  }

  void look(const RecordedEvent& event) {
    if (event.size < 8) return;
    const auto type = load<std::uint16_t>(event.data);
    if (type >= by_type_.size() || by_type_[type] == nullptr) return;
    const Schema& schema = schemas_[type];
    if (event.size < schema.min_size) return;
    capabilities.any_kvm |=
        by_type_[type] != &Capabilities::sched_switch && by_type_[type] != &Capabilities::wakeups &&
        by_type_[type] != &Capabilities::markers && by_type_[type] != &Capabilities::run_ioctl;
    if (by_type_[type] == &Capabilities::run_ioctl || by_type_[type] == &Capabilities::reload) {
      Payload payload;
      schema.decode(schema, event, payload);
      const auto* ioctl = std::get_if<IoctlEnter>(&payload);
      if (ioctl != nullptr && ioctl->command != kKvmRun) return;
      if (std::holds_alternative<Other>(payload)) return;
    }
    capabilities.*by_type_[type] = true;
  }

  Capabilities capabilities;

 private:
  static bool Capabilities::*capability_of(std::string_view name) {
    if (name == "kvm:kvm_exit") return &Capabilities::kvm_exit;
    if (name == "kvm:kvm_userspace_exit") return &Capabilities::kvm_userspace_exit;
    if (name == "kvm:kvm_fpu" || name == "kvm:kvm_get_timer_map" ||
        name == "kvm:kvm_timer_restore_state") {
      return &Capabilities::reload;
    }
    if (name.starts_with("kvm:")) return &Capabilities::any_kvm;
    if (name == "sched:sched_switch") return &Capabilities::sched_switch;
    if (name == "sched:sched_waking" || name == "sched:sched_wakeup") return &Capabilities::wakeups;
    if (name == "ftrace:print") return &Capabilities::markers;
    if (name == "syscalls:sys_enter_ioctl") return &Capabilities::run_ioctl;
    return nullptr;
  }

  std::span<const Schema> schemas_;
  std::vector<bool Capabilities::*> by_type_, possible_;
};

Result<void> look_at(const File& file, const Layout& layout, Looker& looker,
                     const std::vector<double>& places, std::uint64_t events_each) {
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, pages, buffer.page_size, layout.long_size, kBufferSize, nullptr);
      for (const double place : places) {
        if (place > 0) {
          if (auto skipped = events.skip_to(place); !skipped) return skipped;
        }
        for (std::uint64_t i = 0; i < events_each && events.advance(); ++i) {
          looker.look(events.peek());
        }
        if (!events.status()) return events.status();
      }
    }
  }
  return {};
}

}  // namespace

Capabilities capabilities_by_format(const Formats& formats) {
  const auto has = [&](std::string_view name) { return formats.type(name) >= 0; };
  Capabilities capabilities;
  capabilities.kvm_exit = has("kvm:kvm_exit");
  capabilities.kvm_userspace_exit = has("kvm:kvm_userspace_exit");
  capabilities.any_kvm = capabilities.kvm_exit || capabilities.kvm_userspace_exit;
  capabilities.run_ioctl = has("syscalls:sys_enter_ioctl");
  capabilities.reload = has("kvm:kvm_fpu") || has("kvm:kvm_get_timer_map");
  capabilities.sched_switch = has("sched:sched_switch");
  capabilities.wakeups = has("sched:sched_waking") || has("sched:sched_wakeup");
  capabilities.markers = has("ftrace:print");
  return capabilities;
}

Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                         const Formats& formats) {
  Looker looker(formats);
  auto looked = look_at(file, layout, looker, {0, 0.5, 0.98}, kEventsPerLook);
  if (looked && !looker.capabilities.kvm_exit && !looker.is_complete()) {
    looked = look_at(file, layout, looker, {0}, std::numeric_limits<std::uint64_t>::max());
  }
  if (!looked) return tl::unexpected(std::move(looked).error());
  return looker.capabilities;
}

}  // namespace trapline::trace_dat
