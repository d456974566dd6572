#include "merge/record/sync_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "merge/record/page_cut.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline::record {

bool SyncLog::write_series(int marker_fd) {
  SyncSeries series;
  char text[kMaxSyncText];
  std::optional<SessionSync> best;
  std::optional<SyncRecord> previous;
  std::optional<ClockAdjustment> adjustment;
  for (std::size_t size; (size = series.next(text)) != 0;) {
    if (::write(marker_fd, text, size) < 0) return false;
    series.written();
    // A marker's text has the clock readings before it, and those after the previous marker.
    auto record = parse_sync(std::string_view(text, size));
    if (record && record->adjustment) adjustment = record->adjustment;
    if (record && previous && previous->before && record->after) {
      const SessionSync bracket{previous->series, previous->index, *previous->before,
                                *record->after,   std::nullopt,    adjustment};
      const auto width = [](const SessionSync& b) {
        return b.after.at(ClockId::kMono) - b.before.at(ClockId::kMono);
      };
      if (!best || width(bracket) < width(*best)) best = bracket;
    }
    previous = record;
  }
  if (best) keep(*best);
  return true;
}

void SyncLog::stamp(const SyncStamp& sync) {
  for (SessionSync& bracket : brackets_)
    if (bracket.series == sync.series && bracket.index == sync.index) bracket.stamp = sync.stamp;
}

void SyncLog::keep(const SessionSync& bracket) {
  if (last_is_extra_) brackets_.pop_back();
  brackets_.push_back(bracket);
  last_is_extra_ = seen_++ % stride_ != 0;
  if (brackets_.size() < kMostSyncs) return;
  std::vector<SessionSync> thinner;
  for (std::size_t i = 0; i < brackets_.size(); i += 2) thinner.push_back(brackets_[i]);
  if (brackets_.size() % 2 == 0) thinner.push_back(brackets_.back());
  last_is_extra_ = brackets_.size() % 2 == 0;
  brackets_ = std::move(thinner);
  stride_ *= 2;
}

namespace {

constexpr std::size_t kPiece = 256u << 10;  // a multiple of every page size

void append_stamps(std::span<const std::byte> page, std::vector<SyncStamp>& stamps) {
  trace_dat::RingPage walk;
  if (!walk.load(page, kCommitSize)) return;
  for (kernel_events::RecordedEvent event; walk.next(event);) {
    std::string_view text(reinterpret_cast<const char*>(event.data), event.size);
    const auto at = text.find(kSyncPrefix);
    if (at == std::string_view::npos) continue;
    text.remove_prefix(at);
    const auto sync = parse_sync(text.substr(0, text.find_first_of(std::string_view("\n\0", 2))));
    if (sync) stamps.push_back({sync->series, sync->index, event.time});
  }
}

bool holds_prefix(std::span<const std::byte> page) {
  return ::memmem(page.data(), page.size(), kSyncPrefix.data(), kSyncPrefix.size()) != nullptr;
}

}  // namespace

void SyncStamps::expect(const PageFiles& files, std::uint64_t series, int first_cpu, int last_cpu) {
  last_series_ = series;
  for (const int cpu : {first_cpu, last_cpu}) {
    const auto index = static_cast<unsigned>(cpu);
    // A place from which an earlier series is still searched is kept: it is before this one.
    if (cpu >= 0 && index < files.cpus()) places_.try_emplace(index, files.written(index));
  }
}

std::vector<SyncStamp> SyncStamps::find(const PageFiles& files) {
  std::vector<SyncStamp> stamps;
  std::vector<std::byte> buffer(places_.empty() ? 0 : kPiece);
  const std::size_t page_size = files.page_size();
  for (auto& [cpu, from] : places_) {
    const std::uint64_t end = std::min(files.written(cpu), from + kMostAtOnce);
    while (from < end) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(end - from, kPiece));
      if (!files.read(cpu, from, std::span(buffer).first(wanted))) break;
      for (std::size_t at = 0; at + page_size <= wanted; at += page_size) {
        const auto page = std::span<const std::byte>(buffer).subspan(at, page_size);
        if (holds_prefix(page)) append_stamps(page, stamps);
      }
      from += wanted;
    }
  }
  // The last record of a series has the greatest index.
  const auto is_last = [this](const SyncStamp& stamp) {
    return stamp.series == last_series_ && stamp.index == kSyncTries;
  };
  if (std::any_of(stamps.begin(), stamps.end(), is_last)) places_.clear();
  return stamps;
}

}  // namespace trapline::record
