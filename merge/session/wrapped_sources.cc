#include "merge/session/wrapped_sources.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "merge/model/clock_map.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline {
namespace {

std::unique_ptr<Source> of_guest_kernel(std::unique_ptr<Source> source, SourceInfo info,
                                        ClockMap map, std::map<std::int32_t, ThreadId> threads,
                                        MachineId machine) {
  info.role = Role::kGuest;
  const auto adjust = [threads = std::move(threads), machine](Event& event) {
    event.machine = machine;
    if (std::holds_alternative<Lost>(event.payload)) return;
    event.task = event.thread;
    auto cpu = static_cast<std::int32_t>(event.cpu);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.task);
      call->vcpu = cpu = call->cpu;
    }
    event.thread = thread_of_cpu(threads, cpu).value_or(ThreadId{});
  };
  source->place({std::move(info), std::move(map), adjust});
  return source;
}

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::AlignedSource& aligned,
                                   const std::string& timeline_clock) {
  const bool is_same = aligned.map.is_identity() && source->info().clock == timeline_clock;
  if (is_same && !aligned.one_boot_error_ns) return source;
  SourceInfo info = source->info();
  info.aligned = aligned;
  source->place({std::move(info), aligned.map});
  return source;
}

std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                          std::map<std::int32_t, ThreadId> threads) {
  if (threads.empty()) return source;
  // Keeps the vCPU of the last call, with its thread.
  auto adjust = [threads = std::move(threads), vcpu = std::optional<std::int32_t>(),
                 thread = std::optional<ThreadId>()](Event& event) mutable {
    auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr) return;
    if (call->vcpu != vcpu) [[unlikely]] {
      vcpu = call->vcpu;
      const auto found = threads.find(call->vcpu);
      thread = found == threads.end() ? std::nullopt : std::optional(found->second);
    }
    if (!thread) return;
    call->task = static_cast<std::int32_t>(event.thread);
    event.thread = *thread;
  };
  source->place({source->info(), ClockMap(), std::move(adjust)});
  return source;
}

std::unique_ptr<Source> with_guest_calls(std::unique_ptr<Source> source,
                                         const GuestAlignment& relation) {
  SourceInfo info = source->info();
  info.clock = relation.clock;
  info.cycles = false;
  info.aligned = relation.line.alignment(relation.method);
  const auto adjust = [threads = relation.threads](Event& event) {
    const std::int32_t vcpu = vcpu_of_task(static_cast<std::uint32_t>(event.thread));
    event.thread = thread_of_cpu(threads, vcpu).value_or(event.thread);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) call->vcpu = vcpu;
  };
  source->place({std::move(info), relation.line.map(), adjust, "guest"});
  return source;
}

std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                             const GuestAlignment& alignment, MachineId machine) {
  SourceInfo info = source->info();
  info.aligned = alignment.line.alignment(alignment.method);
  if (std::exchange(info.cycles, false)) info.aligned.map = ClockMap();
  return of_guest_kernel(std::move(source), std::move(info), alignment.line.map(),
                         alignment.threads, machine);
}

std::unique_ptr<Source> with_guest_threads(std::unique_ptr<Source> source,
                                           std::map<std::int32_t, ThreadId> threads,
                                           MachineId machine) {
  SourceInfo info = source->info();
  return of_guest_kernel(std::move(source), std::move(info), ClockMap(), std::move(threads),
                         machine);
}

}  // namespace trapline
