#include "tests/support/libtracecmd_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/support/tracecmd_reader.h"

namespace trapline::test {
namespace {

std::vector<LibtracecmdSource::Record> g_records;

void take_record(std::uint64_t time, std::int64_t missed, std::uint32_t cpu, std::uint32_t stream,
                 const void* data, std::uint32_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  g_records.push_back({time, missed, cpu, stream, {bytes, bytes + size}});
}

}  // namespace

std::unique_ptr<LibtracecmdSource> LibtracecmdSource::open(const std::string& path) {
  auto file = File::open(path);
  auto recording =
      file ? trace_dat::open_trace_dat(*file)
           : Result<std::unique_ptr<trace_dat::TraceDatSource>>(tl::unexpected(file.error()));
  auto formats = recording ? trace_dat::read_formats(*file, (*recording)->layout())
                           : Result<kernel_events::Formats>(tl::unexpected(recording.error()));
  if (!formats) {
    ADD_FAILURE() << formats.error().message;
    return nullptr;
  }
  g_records.clear();
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (trapline_each_record(::dup(fd.get()), take_record) != 0) {
    ADD_FAILURE() << "libtracecmd cannot read " << path;
    return nullptr;
  }
  return std::unique_ptr<LibtracecmdSource>(
      new LibtracecmdSource(std::move(*formats), (*recording)->info(), (*recording)->capabilities(),
                            std::exchange(g_records, {})));
}

// A loss is only known when the record after it arrives: its event comes late in time.
Read LibtracecmdSource::take(Event& event) {
  if (next_ == records_.size()) return Read::kEnd;
  const Record& record = records_[next_];
  if (record.stream >= last_time_.size()) last_time_.resize(record.stream + 1u);
  std::uint64_t& last = last_time_[record.stream];
  if (record.missed != 0 && !std::exchange(told_loss_, true)) {
    fill_lost(record.cpu, Timestamp(last), Timestamp(record.time), record.missed, event);
    return Read::kEvent;
  }
  told_loss_ = false;
  last = record.time;
  ++next_;
  // libtracecmd applies what the file says of its times.
  decode({record.time, record.data.data(), static_cast<std::uint32_t>(record.data.size())},
         Timestamp(record.time), record.cpu, event);
  return Read::kEvent;
}

}  // namespace trapline::test
