#include "merge/session/guest_function_source.h"

#include <utility>

#include "merge/source/uftrace/facts.h"
#include "merge/source/uftrace/uftrace_source.h"
#include "merge/source/wrapped_source.h"

namespace trapline {
namespace {

class GuestFunctionSource final : public WrappedSource {
 public:
  GuestFunctionSource(std::unique_ptr<Source> source, const GuestAlignment& relation)
      : WrappedSource(std::move(source)), line_(relation.line), threads_(relation.threads) {
    info_.clock = relation.clock;
    info_.cycles = false;
    info_.method = relation.method;
    info_.offset_ns = line_.offset();
    info_.error_ns = line_.error();
  }

  Read next(Event& event) override {
    const auto place = [this](Timestamp at) { return Timestamp(line_.at(at.ns())); };
    if (const Read read = next_placed(event, place); read != Read::kEvent) return read;
    const std::int32_t vcpu = vcpu_of_task(static_cast<std::uint32_t>(event.thread));
    event.thread = thread_of_cpu(threads_, vcpu).value_or(event.thread);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) call->vcpu = vcpu;
    return Read::kEvent;
  }
  [[nodiscard]] std::string comm(ThreadId) const override { return "guest"; }

 private:
  ClockLine line_;
  std::map<std::int32_t, ThreadId> threads_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                 const GuestAlignment& relation) {
  auto source = open_uftrace(path);
  if (!source) return tl::unexpected(std::move(source).error());
  return std::make_unique<GuestFunctionSource>(std::move(*source), relation);
}

}  // namespace trapline
