#include "merge/session/mapped_source.h"

#include <utility>

#include "merge/source/wrapped_source.h"

namespace trapline {
namespace {

class MappedSource final : public WrappedSource {
 public:
  MappedSource(std::unique_ptr<Source> source, const clocks::AlignedSource& aligned)
      : WrappedSource(std::move(source)), map_(aligned.map) {
    info_.method = aligned.method;
    info_.offset_ns = aligned.offset_ns;
    info_.error_ns = aligned.error_ns;
    info_.one_boot_error_ns = aligned.one_boot_error_ns;
    info_.rate_change_ppm = aligned.rate_change_ppm;
  }

  Read next(Event& event) override { return next_placed(event, map_); }

 private:
  ClockMap map_;
};

// Only what is said of it is another's.
class ToldSource final : public WrappedSource {
 public:
  ToldSource(std::unique_ptr<Source> source, std::optional<std::uint64_t> one_boot_error)
      : WrappedSource(std::move(source)) {
    info_.error_ns.reset();
    info_.one_boot_error_ns = one_boot_error;
  }
  Read next(Event& event) override { return source_->next(event); }
  [[nodiscard]] const SourceCounters& counters() const override { return source_->counters(); }
};

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::AlignedSource& aligned,
                                   const std::string& timeline_clock) {
  if (aligned.map.is_identity() && source->info().clock == timeline_clock) {
    if (!aligned.one_boot_error_ns) return source;
    return std::make_unique<ToldSource>(std::move(source), aligned.one_boot_error_ns);
  }
  return std::make_unique<MappedSource>(std::move(source), aligned);
}

}  // namespace trapline
