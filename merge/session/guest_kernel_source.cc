#include "merge/session/guest_kernel_source.h"

#include <utility>

#include "merge/source/wrapped_source.h"

namespace trapline {
namespace {

class GuestKernelSource final : public WrappedSource {
 public:
  GuestKernelSource(std::unique_ptr<Source> source, const GuestAlignment& relation)
      : WrappedSource(std::move(source)), line_(relation.line), threads_(relation.threads) {
    info_.role = Role::kGuest;
    info_.cycles = false;
    info_.method = relation.method;
    info_.offset_ns = static_cast<std::int64_t>(line_.at(line_.from()) - line_.from());
    info_.error_ns = line_.error();
  }

  Read next(Event& event) override {
    const auto place = [this](Timestamp at) { return Timestamp(line_.at(at.ns())); };
    if (const Read read = next_placed(event, place); read != Read::kEvent) return read;
    if (auto* call = std::get_if<GuestCall>(&event.payload)) {
      call->task = static_cast<std::int32_t>(event.thread);
      event.thread = thread_of(call->cpu, event.thread);
      call->vcpu = call->cpu;
    } else if (!std::holds_alternative<Lost>(event.payload)) {
      event.payload = Other{};
      event.thread = thread_of(static_cast<std::int32_t>(event.cpu), event.thread);
    }
    return Read::kEvent;
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override {
    return source_->comm(ThreadId{-static_cast<std::int32_t>(thread)});
  }

 private:
  // Numbers of the guest's tasks must not be taken for those of host threads.
  [[nodiscard]] ThreadId thread_of(std::int32_t cpu, ThreadId task) const {
    return thread_of_cpu(threads_, cpu).value_or(ThreadId{-static_cast<std::int32_t>(task)});
  }

  ClockLine line_;
  std::map<std::int32_t, ThreadId> threads_;
};

}  // namespace

std::unique_ptr<Source> with_guest_alignment(std::unique_ptr<Source> source,
                                             const GuestAlignment& relation) {
  return std::make_unique<GuestKernelSource>(std::move(source), relation);
}

}  // namespace trapline
