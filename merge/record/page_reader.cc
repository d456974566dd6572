#include "merge/record/page_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/record/setup.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::record {

OtherReaders::OtherReaders(const std::string& stats)
    : stats_(::open(stats.c_str(), O_RDONLY | O_CLOEXEC)) {}

std::optional<std::uint64_t> OtherReaders::read_events() const {
  char text[1024];
  const auto size = uninterrupted([&] { return ::pread(stats_.get(), text, sizeof text, 0); });
  if (size <= 0) return std::nullopt;
  return trace_dat::stat_number({text, static_cast<std::size_t>(size)}, "read events");
}

// If another process has emptied the buffer, the count has started again and is not compared with
// the earlier one.
void OtherReaders::before() {
  const auto now = read_events();
  if (now && after_ && *now > *after_) events_ += *now - *after_;
}

void OtherReaders::after() { after_ = read_events(); }

CpuLoss read_loss(unsigned cpu, const std::string& stats) {
  const auto value = [&stats](std::string_view key) { return trace_dat::stat_number(stats, key); };
  return {cpu, value("overrun"), value("dropped events") + value("commit overrun"), 0,
          value("entries")};
}

Result<bool> page_round(PageSinks sinks, unsigned cpus, std::span<std::byte> page,
                        const NextPage& next) {
  bool all_drained = true;
  for (PageSink* sink : sinks) sink->begin_round();
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    bool more = true;
    std::size_t room = ~std::size_t{0};
    for (const PageSink* sink : sinks) room = std::min(room, sink->room(cpu));
    for (; more && room > 0; --room) {
      const auto got = next(cpu, page);
      if (!got) return got;
      more = *got;
      if (!more) break;
      for (PageSink* sink : sinks)
        if (auto taken = sink->page(cpu, page); !taken) return tl::unexpected(taken.error());
    }
    for (PageSink* sink : sinks)
      if (!more) sink->drained(cpu);
    all_drained &= !more;
  }
  for (PageSink* sink : sinks)
    if (auto ended = sink->end_round(); !ended) return tl::unexpected(ended.error());
  return all_drained;
}

namespace {

std::string file_of(unsigned cpu, const char* file) {
  return fmt::format("per_cpu/cpu{}/{}", cpu, file);
}

}  // namespace

void allow_streams(unsigned cpus) {
  constexpr std::size_t kOtherFiles = 256;
  allow_open_files(3 * std::size_t{cpus} + kOtherFiles);
}

Result<PageReader> PageReader::open(const Instance& instance) {
  const auto cpus = count_cpus(instance);
  if (!cpus) return tl::unexpected(cpus.error());
  allow_streams(*cpus);
  PageReader reader;
  const std::size_t page_size = page_size_of(instance);
  for (unsigned cpu = 0; cpu < *cpus; ++cpu) {
    const std::string path = instance.path(file_of(cpu, "trace_pipe_raw"));
    if (page_size > kLargestPage) {
      return fail("{}: pages of {} bytes; at most {} can be recorded: write buffer_subbuf_size_kb",
                  path, page_size, kLargestPage);
    }
    UniqueFd source(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!source && errno == EMFILE)
      return fail("{}: {}; {}", path, std::strerror(EMFILE), kMoreFiles);
    if (!source) return fail("{}: {}", path, std::strerror(errno));
    reader.cpus_.push_back({std::move(source), path, {}});
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail("pipe: {}", std::strerror(errno));
  reader.out_.reset(ends[0]);
  reader.in_.reset(ends[1]);
  // Makes the pipe hold 256 pages if the limit for pipes allows it; any size works.
  (void)::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  const int size = ::fcntl(ends[1], F_GETPIPE_SZ);
  reader.pipe_size_ = size > 0 ? static_cast<std::size_t>(size) : 65536;
  reader.page_.resize(page_size);
  return reader;
}

void PageReader::count_other_readers(const Instance& instance) {
  for (unsigned cpu = 0; cpu < cpus(); ++cpu)
    cpus_[cpu].others.emplace(instance.path(file_of(cpu, "stats")));
}

void PageReader::take_at_most(std::vector<std::uint64_t> bytes) {
  for (unsigned cpu = 0; cpu < cpus(); ++cpu) cpus_[cpu].left = bytes[cpu] + page_.size();
}

Result<bool> PageReader::read_page(unsigned index, std::span<std::byte> page) {
  Cpu& cpu = cpus_[index];
  if (cpu.left < page.size()) return false;
  const ssize_t size =
      uninterrupted([&] { return ::read(cpu.source.get(), page.data(), page.size()); });
  if (size == 0 || (size < 0 && errno == EAGAIN)) return false;
  if (size < 0) return fail("{}: {}", cpu.path, std::strerror(errno));
  // A short read omits the unused end of the page.
  std::ranges::fill(page.subspan(static_cast<std::size_t>(size)), std::byte{0});
  cpu.left -= page.size();
  read_ += page.size();
  return true;
}

Result<bool> PageReader::round(PageSinks sinks) {
  return page_round(sinks, cpus(), page_, [this](unsigned cpu, std::span<std::byte> page) {
    return read_page(cpu, page);
  });
}

Result<bool> PageReader::rounds(PageSinks sinks, unsigned most) {
  for (Cpu& cpu : cpus_)
    if (cpu.others) cpu.others->before();
  Result<bool> drained = false;
  for (unsigned round = 0; round < most && drained && !*drained; ++round)
    drained = this->round(sinks);
  for (Cpu& cpu : cpus_)
    if (cpu.others) cpu.others->after();
  return drained;
}

Result<void> PageReader::empty_pipe(unsigned cpu, PageFiles& files, std::size_t bytes) {
  while (bytes > 0) {
    const auto place = files.place(cpu);
    if (!place) {
      files.not_written(cpu, bytes);
      return tl::unexpected(place.error());
    }
    auto to = static_cast<off_t>(place->offset);
    const ssize_t moved = ::splice(out_.get(), nullptr, place->fd, &to,
                                   std::min<std::uint64_t>(bytes, place->room), SPLICE_F_MOVE);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      const int cause = moved < 0 ? errno : ENOSPC;
      files.not_written(cpu, bytes);
      return fail("{}: {}", files.path_of(cpu), why_not_written(cause));
    }
    files.wrote(cpu, static_cast<std::uint64_t>(moved));
    bytes -= static_cast<std::size_t>(moved);
  }
  return {};
}

Result<void> PageReader::splice_full(unsigned index, PageFiles& files) {
  constexpr unsigned kMostPipes = 16;
  const Cpu& cpu = cpus_[index];
  for (unsigned pipe = 0; pipe < kMostPipes; ++pipe) {
    const ssize_t size = uninterrupted([&] {
      return ::splice(cpu.source.get(), nullptr, in_.get(), nullptr, pipe_size_,
                      SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    });
    if (size == 0 || (size < 0 && errno == EAGAIN)) return {};
    if (size < 0) return fail("{}: {}", cpu.path, std::strerror(errno));
    read_ += static_cast<std::uint64_t>(size);
    if (auto moved = empty_pipe(index, files, static_cast<std::size_t>(size)); !moved) return moved;
  }
  return {};
}

Result<void> PageReader::splice(unsigned cpu, PageFiles& files) {
  std::optional<OtherReaders>& others = cpus_[cpu].others;
  if (others) others->before();
  auto done = splice_full(cpu, files);
  if (others) others->after();
  return done;
}

std::vector<CpuLoss> PageReader::losses(const Instance& instance,
                                        std::vector<std::string>& stats) const {
  std::vector<CpuLoss> losses;
  for (unsigned cpu = 0; cpu < cpus(); ++cpu) {
    stats.push_back(instance.control().get(file_of(cpu, "stats")).value_or(""));
    losses.push_back(read_loss(cpu, stats.back()));
    if (cpus_[cpu].others) losses.back().read_by_others = cpus_[cpu].others->events();
  }
  return losses;
}

void PageReader::close() {
  in_.reset();
  out_.reset();
  for (Cpu& cpu : cpus_) {
    cpu.source.reset();
    cpu.others.reset();
  }
}

}  // namespace trapline::record
