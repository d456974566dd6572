// The raw pages of a recording of tests/data, given to a Snapshot as the recorder gives it the
// kernel's, and the trace.dat that comes out.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "merge/record/snapshot.h"
#include "merge/record/trace_dat_writer.h"
#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/unfinished.h"
#include "tests/merge/source/recordings.h"

namespace trapline::record::testing {

using Bytes = std::vector<std::byte>;

struct Recorded {
  std::uint64_t time = 0;
  std::string bytes;
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

// The events of a page, and whether it has the mark for lost ones.
inline bool append_events(std::span<const std::byte> page, std::vector<Recorded>& events) {
  trace_dat::RingPage walk;
  EXPECT_TRUE(walk.load(page, kCommitSize));
  for (kernel_events::RecordedEvent event; walk.next(event);) {
    events.push_back({event.time, {reinterpret_cast<const char*>(event.data), event.size}});
  }
  EXPECT_FALSE(walk.damaged());
  return walk.lost() != trace_dat::RingPage::kNoneLost;
}

// A recording's pages, by CPU, and what its header says.
class RecordedPages {
 public:
  explicit RecordedPages(const std::string& path) {
    auto file = File::open(path);
    auto layout = trace_dat::read_layout(*file);
    layout_ = *layout;
    for (const trace_dat::Buffer& buffer : layout->buffers) {
      for (const trace_dat::CpuPages& cpu : buffer.cpus) {
        if (pages_.size() <= cpu.cpu) pages_.resize(cpu.cpu + 1);
        trace_dat::PageReader reader(*file, cpu.pages, buffer.page_size, 1u << 20);
        for (;;) {
          auto page = reader.next();
          EXPECT_TRUE(page);
          if (!page || page->empty()) break;
          pages_[cpu.cpu].emplace_back(page->begin(), page->end());
        }
      }
    }
  }

  [[nodiscard]] const std::vector<std::vector<Bytes>>& pages() const { return pages_; }
  [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(pages_.size()); }
  [[nodiscard]] std::vector<std::vector<Recorded>> events() const {
    std::vector<std::vector<Recorded>> events(pages_.size());
    for (std::size_t cpu = 0; cpu < pages_.size(); ++cpu) {
      for (const Bytes& page : pages_[cpu]) (void)append_events(page, events[cpu]);
    }
    return events;
  }
  // The formats of the events that it holds, as a recorder knows those it switched on.
  [[nodiscard]] kernel_events::Formats formats() const {
    std::map<std::string, bool> types;
    for (const auto& cpu : events()) {
      for (const Recorded& event : cpu) {
        types[std::to_string(
            load<std::uint16_t>(reinterpret_cast<const std::byte*>(event.bytes.data())))] = true;
      }
    }
    trace_dat::Layout layout = layout_;
    std::erase_if(layout.formats, [&](const kernel_events::EventFormat& format) {
      const auto at = format.text.find("\nID: ") + 5;
      return !types.contains(format.text.substr(at, format.text.find('\n', at) - at));
    });
    auto formats = kernel_events::Formats::parse("test", layout);
    EXPECT_TRUE(formats && formats->texts().status());
    return std::move(formats).value();
  }

 private:
  trace_dat::Layout layout_;
  std::vector<std::vector<Bytes>> pages_;
};

// Gives the pages to the snapshot in rounds of `step` nanoseconds, cut as a reader cuts them that
// takes what is there; every `burst`th round ends before the CPUs are drained.
class Replay {
 public:
  Replay(const RecordedPages& recorded, std::uint64_t step, unsigned burst)
      : recorded_(recorded), step_(step), burst_(burst) {}

  [[nodiscard]] Result<void> into(Snapshot& snapshot) {
    std::uint64_t now = ~std::uint64_t{0}, end = 0;
    for (const auto& pages : recorded_.pages()) {
      for (const Bytes& page : pages) {
        const auto facts = look_at_page(page);
        now = std::min(now, facts->first);
        end = std::max(end, facts->last);
      }
    }
    std::vector<std::size_t> at(recorded_.cpus());
    std::vector<std::uint64_t> given(recorded_.cpus());  // up to this stamp
    Bytes out(4096);
    for (std::uint64_t round = 1; now <= end; ++round) {
      now += step_;
      snapshot.begin_round();
      for (unsigned cpu = 0; cpu < recorded_.cpus(); ++cpu) {
        const auto& pages = recorded_.pages()[cpu];
        const bool early = round % burst_ == 0;
        while (at[cpu] < pages.size()) {
          const Bytes& page = pages[at[cpu]];
          const auto facts = look_at_page(page);
          const bool whole = facts->last <= now;
          if (early && !whole) break;
          const CutPage piece = cut_page(page, given[cpu], whole ? facts->last : now, out);
          if (piece.events != 0) {
            // What was lost before the page is told with its first events.
            if (piece.skipped == 0) mark_missed(out, piece.used, facts->lost);
            if (auto added = snapshot.page(cpu, out); !added) return added;
            largest = std::max(largest, snapshot.held_bytes());
          }
          given[cpu] = (whole ? facts->last : now) + 1;
          if (!whole) break;
          ++at[cpu];
          given[cpu] = 0;
        }
        if (!early) snapshot.drained(cpu);
      }
      if (auto ended = snapshot.end_round(); !ended) return ended;
      largest = std::max(largest, snapshot.held_bytes());
    }
    return snapshot.finish();
  }

  std::size_t largest = 0;  // bytes that were held

 private:
  const RecordedPages& recorded_;
  std::uint64_t step_;
  unsigned burst_;
};

// The pages without the boundary pages, as another recorder would have written them.
inline std::vector<std::vector<Bytes>> without_boundaries(std::vector<std::vector<Bytes>> pages) {
  for (auto& cpu : pages)
    std::erase_if(cpu, [](const Bytes& page) { return look_at_page(page)->events == 0; });
  return pages;
}

// A version 6 file of these pages below the header of `original` (made version 6 by trace-cmd).
inline void write_trace_dat(const std::string& original, const std::string& path,
                            const std::vector<std::vector<Bytes>>& pages,
                            const std::string& version = "trapline 0.1.0") {
  namespace fs = std::filesystem;
  (void)trapline::test::output_of("trace-cmd convert --file-version 6 --compression none -i " +
                                  original + " -o " + path + ".v6 2>/dev/null >/dev/null");
  const auto file = File::open(path + ".v6");
  ASSERT_TRUE(file) << file.error().message;
  const auto layout = trace_dat::read_layout(*file);
  ASSERT_TRUE(layout) << layout.error().message;
  std::string head(layout->cmdlines.offset - 8, '\0');
  ASSERT_TRUE(file->read(0, std::as_writable_bytes(std::span(head))));
  trace_dat::StartFacts start;
  start.head_bytes = head.size();
  start.version = version;
  start.clocks = "[" + layout->clock + "]";
  const auto names = trace_dat::read_section(*file, *layout, layout->cmdlines).value_or("");
  std::vector<std::uint64_t> sizes;
  for (const auto& cpu : pages) sizes.push_back(cpu.size() * 4096);
  const trace_dat::Tail tail =
      trace_dat::trace_dat_tail(start, names, std::vector<std::string>(pages.size()), sizes);
  std::ofstream out(path, std::ios::binary);
  out << head << tail.bytes;
  for (const auto& cpu : pages) {
    for (const Bytes& page : cpu) {
      out.write(reinterpret_cast<const char*>(page.data()),
                static_cast<std::streamsize>(page.size()));
    }
  }
  fs::remove(path + ".v6");
}

}  // namespace trapline::record::testing
