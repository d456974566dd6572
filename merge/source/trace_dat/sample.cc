#include "merge/source/trace_dat/sample.h"

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
      by_type_.push_back(trait_of(name));
    }
  }

  void look(const RecordedEvent& event) {
    if (event.size < 8) return;
    const auto type = load<std::uint16_t>(event.data);
    if (type >= by_type_.size() || by_type_[type] == nullptr) return;
    const Schema& schema = schemas_[type];
    if (event.size < schema.min_size) return;
    traits.any_kvm |= by_type_[type] != &Traits::sched_switch &&
                      by_type_[type] != &Traits::wakeups && by_type_[type] != &Traits::markers &&
                      by_type_[type] != &Traits::run_ioctl;
    if (by_type_[type] == &Traits::run_ioctl || by_type_[type] == &Traits::reload) {
      Payload payload;
      schema.decode(schema, event, payload);
      const auto* ioctl = std::get_if<IoctlEnter>(&payload);
      if (ioctl != nullptr && ioctl->command != kKvmRun) return;
      if (std::holds_alternative<Other>(payload)) return;
    }
    traits.*by_type_[type] = true;
  }

  Traits traits;

 private:
  static bool Traits::*trait_of(std::string_view name) {
    if (name == "kvm:kvm_exit") return &Traits::kvm_exit;
    if (name == "kvm:kvm_userspace_exit") return &Traits::kvm_userspace_exit;
    if (name == "kvm:kvm_fpu" || name == "kvm:kvm_get_timer_map" ||
        name == "kvm:kvm_timer_restore_state") {
      return &Traits::reload;
    }
    if (name.starts_with("kvm:")) return &Traits::any_kvm;
    if (name == "sched:sched_switch") return &Traits::sched_switch;
    if (name == "sched:sched_waking" || name == "sched:sched_wakeup") return &Traits::wakeups;
    if (name == "ftrace:print") return &Traits::markers;
    if (name == "syscalls:sys_enter_ioctl") return &Traits::run_ioctl;
    return nullptr;
  }

  std::span<const Schema> schemas_;
  std::vector<bool Traits::*> by_type_;
};

Result<void> look_at(const File& file, const Layout& layout, Looker& looker,
                     const std::vector<double>& places, std::uint64_t events_each) {
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, pages, buffer.page_size, layout.long_size, kBufferSize);
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

Result<Traits> sample_traits(const File& file, const Layout& layout, const Formats& formats) {
  Looker looker(formats);
  auto looked = look_at(file, layout, looker, {0, 0.5, 0.98}, kEventsPerLook);
  if (looked && !looker.traits.kvm_exit) {
    looked = look_at(file, layout, looker, {0}, std::numeric_limits<std::uint64_t>::max());
  }
  if (!looked) return tl::unexpected(std::move(looked).error());
  return looker.traits;
}

}  // namespace trapline::trace_dat
