#include "merge/source/mapped_source.h"

#include <utility>

namespace trapline {
namespace {

class MappedSource final : public Source {
 public:
  MappedSource(std::unique_ptr<Source> source, const clocks::RelatedSource& related)
      : source_(std::move(source)), map_(related.map), info_(source_->info()) {
    info_.method = related.method;
    info_.offset_ns = related.offset_ns;
    info_.error_ns = related.error_ns;
  }

  void want(Need need) override { source_->want(need); }
  bool next(Event& event) override {
    if (!source_->next(event)) {
      count();
      return false;
    }
    event.at = map_(event.at);
    if (auto* lost = std::get_if<Lost>(&event.payload)) {
      lost->from = map_(lost->from);
      lost->to = map_(lost->to);
    }
    count();
    return true;
  }
  [[nodiscard]] const Result<void>& status() const override { return source_->status(); }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] const SourceCounters& counters() const override { return counters_; }
  [[nodiscard]] double progress() const override { return source_->progress(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    return source_->facts();
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    return source_->event_counts();
  }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    return source_->event_name(event);
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    return source_->event_text(event);
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override { return source_->comm(thread); }
  [[nodiscard]] std::string exit_reason(std::uint32_t isa, std::uint32_t reason,
                                        std::uint32_t exception_class) const override {
    return source_->exit_reason(isa, reason, exception_class);
  }
  [[nodiscard]] std::string userspace_reason(std::uint32_t reason) const override {
    return source_->userspace_reason(reason);
  }

 private:
  void count() {
    counters_ = source_->counters();
    counters_.first = map_(counters_.first);
    counters_.last = map_(counters_.last);
  }

  std::unique_ptr<Source> source_;
  ClockMap map_;
  SourceInfo info_;
  SourceCounters counters_;
};

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::RelatedSource& related,
                                   const std::string& timeline_clock) {
  if (related.map.is_identity() && source->info().clock == timeline_clock) return source;
  return std::make_unique<MappedSource>(std::move(source), related);
}

}  // namespace trapline
