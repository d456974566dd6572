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
  }

  Read next(Event& event) override { return next_placed(event, map_); }

 private:
  ClockMap map_;
};

}  // namespace

std::unique_ptr<Source> with_clock(std::unique_ptr<Source> source,
                                   const clocks::AlignedSource& aligned,
                                   const std::string& timeline_clock) {
  if (aligned.map.is_identity() && source->info().clock == timeline_clock) return source;
  return std::make_unique<MappedSource>(std::move(source), aligned);
}

}  // namespace trapline
