#include "merge/session/guest_kernel_source.h"

#include <optional>
#include <utility>

#include "merge/session/wrapped_source.h"

namespace trapline {
namespace {

class GuestKernelSource final : public WrappedSource {
 public:
  GuestKernelSource(std::unique_ptr<Source> source, ClockMap map,
                    std::map<std::int32_t, ThreadId> threads, MachineId machine)
      : WrappedSource(std::move(source), std::move(map)),
        threads_(std::move(threads)),
        machine_(machine) {
    info_.role = Role::kGuest;
  }
  void tell(const GuestAlignment& alignment) {
    info_.cycles = false;
    info_.aligned = alignment.of_source();
  }

  Read next(Event& event) override {
    if (const Read read = next_placed(event); read != Read::kEvent) return read;
    event.machine = machine_;
    if (std::holds_alternative<Lost>(event.payload)) return Read::kEvent;
    event.task = event.thread;
    auto cpu = static_cast<std::int32_t>(event.cpu);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.task);
      call->vcpu = cpu = call->cpu;
    }
    event.thread = thread_of_cpu(threads_, cpu).value_or(ThreadId{});
    return Read::kEvent;
  }

 private:
  std::map<std::int32_t, ThreadId> threads_;
  MachineId machine_;
};

}  // namespace

std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                             const GuestAlignment& alignment, MachineId machine) {
  auto guest = std::make_unique<GuestKernelSource>(std::move(source), alignment.line.map(),
                                                   alignment.threads, machine);
  guest->tell(alignment);
  return guest;
}

std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                           std::map<std::int32_t, ThreadId> threads,
                                           MachineId machine) {
  return std::make_unique<GuestKernelSource>(std::move(source), ClockMap(), std::move(threads),
                                             machine);
}

}  // namespace trapline
