#include "merge/session/mapped_source.h"

#include <utility>

#include "merge/session/wrapped_source.h"

namespace trapline {
namespace {

class MappedSource final : public WrappedSource {
 public:
  MappedSource(std::unique_ptr<Source> source, const clocks::AlignedSource& aligned)
      : WrappedSource(std::move(source), aligned.map) {
    info_.aligned = aligned;
  }

  Read next(Event& event) override { return next_placed(event); }
};

// Its times stay; only its error is another.
class ToldSource final : public WrappedSource {
 public:
  ToldSource(std::unique_ptr<Source> source, std::optional<std::uint64_t> one_boot_error)
      : WrappedSource(std::move(source), ClockMap()) {
    info_.aligned.error_ns.reset();
    info_.aligned.one_boot_error_ns = one_boot_error;
  }
  Read next(Event& event) override { return source_->next(event); }
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
