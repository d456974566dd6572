// The events of a trace.dat as libtracecmd reads them, as a source: what TraceDatSource is held
// against. For whole files only: libtracecmd crashes on damaged ones.
#pragma once

#include <string>
#include <vector>

#include "merge/source/kernel_events/kernel_event_source.h"

namespace trapline::test {

class LibtracecmdSource final : public kernel_events::KernelEventSource {
 public:
  // Reads all of the file; fails the test where libtracecmd cannot.
  [[nodiscard]] static std::unique_ptr<LibtracecmdSource> open(const std::string& path);

  [[nodiscard]] Read take(Event& event) override;
  [[nodiscard]] double progress() const override { return 1; }
  [[nodiscard]] std::string reader() const override { return "libtracecmd"; }

  struct Record {
    std::uint64_t time = 0;
    std::int64_t missed = 0;  // just before: 0 none, below it an unknown number
    std::uint32_t cpu = 0;
    std::uint32_t stream = 0;  // differs for each CPU of each buffer
    std::vector<std::byte> data;
  };

 private:
  LibtracecmdSource(kernel_events::Formats formats, SourceInfo info, Capabilities capabilities,
                    std::vector<Record> records)
      : KernelEventSource(std::move(formats), std::move(info), capabilities, false),
        records_(std::move(records)) {}

  std::vector<Record> records_;
  std::vector<std::uint64_t> last_time_;  // by stream
  std::size_t next_ = 0;
  bool told_loss_ = false;  // that before next_
};

}  // namespace trapline::test
