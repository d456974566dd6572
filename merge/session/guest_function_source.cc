#include "merge/session/guest_function_source.h"

#include <map>
#include <optional>
#include <utility>

#include "merge/session/wrapped_source.h"
#include "merge/source/uftrace/facts.h"
#include "merge/source/uftrace/uftrace_source.h"

namespace trapline {
namespace {

class GuestFunctionSource final : public WrappedSource {
 public:
  GuestFunctionSource(std::unique_ptr<Source> source, const GuestAlignment& relation)
      : WrappedSource(std::move(source), relation.line.map()), threads_(relation.threads) {
    info_.clock = relation.clock;
    info_.cycles = false;
    info_.aligned = relation.of_source();
  }

  Read next(Event& event) override {
    if (const Read read = next_placed(event); read != Read::kEvent) return read;
    const std::int32_t vcpu = vcpu_of_task(static_cast<std::uint32_t>(event.thread));
    event.thread = thread_of_cpu(threads_, vcpu).value_or(event.thread);
    if (auto* call = std::get_if<GuestCall>(&event.payload)) call->vcpu = vcpu;
    return Read::kEvent;
  }
  [[nodiscard]] std::string comm(ThreadId) const override { return "guest"; }

 private:
  std::map<std::int32_t, ThreadId> threads_;
};

class CallsOfThreads final : public WrappedSource {
 public:
  CallsOfThreads(std::unique_ptr<Source> source, std::map<std::int32_t, ThreadId> threads)
      : WrappedSource(std::move(source), ClockMap()), threads_(std::move(threads)) {}

  Read next(Event& event) override {
    const Read read = source_->next(event);
    auto* call = read == Read::kEvent ? std::get_if<GuestCall>(&event.payload) : nullptr;
    if (call == nullptr) return read;
    if (call->vcpu != vcpu_) [[unlikely]] {
      vcpu_ = call->vcpu;
      thread_ = threads_.find(call->vcpu);
    }
    if (thread_ == threads_.end()) return read;
    call->task = static_cast<std::int32_t>(event.thread);
    event.thread = thread_->second;
    return read;
  }

 private:
  const std::map<std::int32_t, ThreadId> threads_;
  std::optional<std::int32_t> vcpu_;  // of the last call, and its thread
  std::map<std::int32_t, ThreadId>::const_iterator thread_;
};

}  // namespace

std::unique_ptr<Source> with_vcpu_threads(std::unique_ptr<Source> source,
                                          std::map<std::int32_t, ThreadId> threads) {
  if (threads.empty()) return source;
  return std::make_unique<CallsOfThreads>(std::move(source), std::move(threads));
}

Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                 const GuestAlignment& relation) {
  auto source = open_uftrace(path);
  if (!source) return tl::unexpected(std::move(source).error());
  return std::make_unique<GuestFunctionSource>(std::move(*source), relation);
}

}  // namespace trapline
