#include "merge/pass/first_look.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/exit_text.h"
#include "merge/pass/no_exits.h"
#include "merge/pass/pass.h"
#include "merge/pass/vcpu_names.h"

namespace trapline {
namespace {

std::string choices(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The longest exit of each thread: which threads count is known when all was read.
class LongestByThread final : public SpanSink {
 public:
  // `source` is asked for the names of reasons, and stays as long as exits come.
  using SourceOf = std::function<const Source&(const ExitSpan&)>;
  LongestByThread(std::string reason, SourceOf source)
      : reason_(std::move(reason)), source_(std::move(source)) {}

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kExits; }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    const auto found = longest_.find(exit.thread);
    if (found != longest_.end() && exit.total() <= found->second.total()) return;
    if (reason_.empty() ? exit.halt : !matches(reason_, reason_text(source_(exit), exit.reason))) {
      return;
    }
    longest_.insert_or_assign(exit.thread, exit);
  }
  // Of exits of one length the one that ended first.
  [[nodiscard]] std::optional<ExitSpan> of(const std::optional<std::set<ThreadId>>& threads) const {
    std::optional<ExitSpan> longest;
    for (const auto& [thread, exit] : longest_) {
      if (threads && !threads->contains(thread)) continue;
      if (longest && std::pair(exit.total(), longest->end) <= std::pair(longest->total(), exit.end))
        continue;
      longest = exit;
    }
    return longest;
  }

 private:
  std::string reason_;
  SourceOf source_;
  std::map<ThreadId, ExitSpan> longest_;
};

Result<std::set<ThreadId>> matching(const VcpuFilter& filter,
                                    const std::vector<VcpuThread>& threads,
                                    const Processes& processes) {
  const std::vector<Vm> vms = find_vms(threads, processes);
  std::set<ThreadId> matching;
  std::set<std::string> vm_names, vcpu_names;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    vm_names.insert(vms[i].text());
    vcpu_names.insert(threads[i].vcpu == kNoVcpu ? "unknown" : std::to_string(threads[i].vcpu));
    const bool vm_fits = filter.vm.empty() || vms[i].given == filter.vm ||
                         vms[i].id() == filter.vm || vms[i].id() == "~" + filter.vm;
    if (vm_fits && (!filter.vcpu || threads[i].vcpu == *filter.vcpu)) {
      matching.insert(threads[i].thread);
    }
  }
  if (matching.empty()) {
    return fail(ErrorKind::kUsage,
                "--vm/--vcpu: nothing matches; there are the VMs {} and the vCPUs {}",
                choices(vm_names), choices(vcpu_names));
  }
  return matching;
}

Result<FirstLook> found_in(const LookFor& wanted, const LongestByThread& longest,
                           const std::vector<VcpuThread>& threads, const Processes& processes) {
  FirstLook found;
  if (!wanted.filter.empty()) {
    auto some = matching(wanted.filter, threads, processes);
    if (!some) return tl::unexpected(std::move(some).error());
    found.threads = std::move(*some);
  }
  if (wanted.longest) found.longest = longest.of(found.threads);
  return found;
}

// Sees the host's events while evidence is gathered.
class Watcher final : public EvidenceObserver {
 public:
  Watcher(const LookFor& wanted, const Progress& progress)
      : progress_(progress),
        longest_(wanted.reason, [this](const ExitSpan&) -> const Source& { return *host_; }) {}

  void begin(const Source& host, const Capabilities& has) override {
    host_ = &host;
    PipelineOptions how;
    how.model = choose_exit_model(has);
    pipeline_.emplace(std::move(how), std::vector<SpanSink*>{&longest_});
  }
  void on(const Event& event) override {
    if (!pipeline_->push(event)) return;
    if (++events_ % kEventsPerProgress == 0 && progress_) progress_(host_->progress());
  }
  void end(const Result<void>& status) override {
    status_ = status;
    pipeline_->finish();
    threads_ = vcpu_threads(pipeline_->vcpus(),
                            [this](std::size_t, ThreadId thread) { return host_->comm(thread); });
    host_ = nullptr;
  }
  // Whether it saw what a pass over the timeline would.
  [[nodiscard]] bool saw_all(const Input& input) const {
    return pipeline_ && input.observed && has_exits(input.capabilities) &&
           pipeline_->exits().model() == choose_exit_model(input.capabilities);
  }
  [[nodiscard]] Result<FirstLook> found(const LookFor& wanted, const Input& input) const {
    if (wanted.longest && !status_) return tl::unexpected(status_.error());
    Processes processes = pipeline_->processes();
    processes.merge(input.processes);
    return found_in(wanted, longest_, threads_, processes);
  }

 private:
  const Progress& progress_;
  const Source* host_ = nullptr;
  LongestByThread longest_;
  std::optional<Pipeline> pipeline_;
  std::vector<VcpuThread> threads_;
  Result<void> status_;
  std::uint64_t events_ = 0;
};

// The same in a pass over the timeline.
Result<FirstLook> look(Input input, const LookFor& wanted, const Progress& progress) {
  Timeline timeline(std::move(input.sources));
  LongestByThread longest(wanted.reason, [&timeline](const ExitSpan& exit) -> const Source& {
    return timeline.source(exit.source);
  });
  Pipeline pipeline(pipeline_options(timeline, input), {&longest});
  feed(timeline, pipeline, progress);
  finish(timeline, pipeline);
  if (wanted.longest) {
    if (!timeline.status()) return tl::unexpected(timeline.status().error());
    if (!has_exits(input.capabilities)) return tl::unexpected(no_exits(timeline));
  }
  return found_in(wanted, longest, vcpu_threads(pipeline.vcpus(), timeline), pipeline.processes());
}

}  // namespace

Result<LookedAt> open_and_look(const InputOptions& options, const LookFor& wanted,
                               const Progress& progress) {
  const bool looks = wanted.longest || !wanted.filter.empty();
  Watcher watcher(wanted, progress);
  InputOptions how = options;
  if (looks) how.observer = &watcher;
  auto input = open_input(how);
  if (!input) return tl::unexpected(std::move(input).error());
  if (!looks) return LookedAt{std::move(*input), {}};
  if (watcher.saw_all(*input)) {
    auto found = watcher.found(wanted, *input);
    if (!found) return tl::unexpected(std::move(found).error());
    return LookedAt{std::move(*input), std::move(*found)};
  }
  auto found = look(std::move(*input), wanted, progress);
  if (!found) return tl::unexpected(std::move(found).error());
  how.observer = nullptr;
  how.verbose = {};  // it was told
  input = open_input(how);
  if (!input) return tl::unexpected(std::move(input).error());
  return LookedAt{std::move(*input), std::move(*found)};
}

}  // namespace trapline
