#include "merge/source/perf_data/spill_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/stream_copy.h"

namespace trapline::perf_data {
namespace {

constexpr std::size_t kWriteAtOnce = 256u << 10;
constexpr std::size_t kHead = 16;  // u64 time, u32 size, u16 CPU, u8 kind, 0

constexpr std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

}  // namespace

void SpillFile::flush() {
  if (!status_ || buffer_.empty()) return;
  if (!fd_) fd_ = make_temporary_file();
  std::span<const std::byte> rest(buffer_);
  while (!rest.empty()) {
    const ssize_t wrote =
        fd_ ? ::pwrite(fd_.get(), rest.data(), rest.size(), static_cast<off_t>(end_)) : -1;
    if (wrote < 0 && fd_ && errno == EINTR) continue;
    if (wrote <= 0) {
      status_ = fail(
          "cannot write a temporary file in {}, to sort what memory does not hold: {}; set TMPDIR "
          "to a folder with as much room as the recording has",
          temporary_folder(), std::strerror(errno));
      break;
    }
    rest = rest.subspan(static_cast<std::size_t>(wrote));
    end_ += static_cast<std::uint64_t>(wrote);
  }
  buffer_.clear();
}

void SpillFile::add(const Item& item) {
  std::byte head[kHead] = {};
  std::memcpy(head, &item.time, 8);
  std::memcpy(head + 8, &item.size, 4);
  std::memcpy(head + 12, &item.cpu, 2);
  head[14] = static_cast<std::byte>(item.kind);
  buffer_.insert(buffer_.end(), head, head + kHead);
  buffer_.insert(buffer_.end(), item.data, item.data + item.size);
  buffer_.resize(buffer_.size() + padded(item.size) - item.size);
  if (buffer_.size() >= kWriteAtOnce) flush();
}

Result<std::unique_ptr<SpillFile::Run>> SpillFile::finish_run() {
  flush();
  if (!status_) return tl::unexpected(status_.error());
  auto run = std::make_unique<Run>(*this, run_begin_, end_);
  run_begin_ = end_;
  return run;
}

void SpillFile::clear() {
  if (fd_ && ::ftruncate(fd_.get(), 0) != 0) return;  // if truncating fails, the file only grows on
  run_begin_ = end_ = 0;
}

SpillFile::Run::Run(SpillFile& file, std::uint64_t begin, std::uint64_t end)
    : file_(file), next_(begin), end_(end), buffer_(kBuffer) {}

bool SpillFile::Run::fill(std::size_t needed) {
  if (filled_ - at_ >= needed) return true;
  std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
  filled_ -= at_;
  at_ = 0;
  while (next_ < end_ && filled_ < buffer_.size()) {
    const auto size = std::min<std::uint64_t>(buffer_.size() - filled_, end_ - next_);
    const ssize_t got =
        ::pread(file_.fd_.get(), buffer_.data() + filled_, size, static_cast<off_t>(next_));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      file_.status_ = fail("cannot read a temporary file in {}: {}", temporary_folder(),
                           got < 0 ? std::strerror(errno) : "it became shorter");
      return false;
    }
    filled_ += static_cast<std::size_t>(got);
    next_ += static_cast<std::uint64_t>(got);
  }
  return filled_ - at_ >= needed;
}

bool SpillFile::Run::advance() {
  if (!fill(kHead)) return false;
  const std::byte* head = buffer_.data() + at_;
  item_.time = load<std::uint64_t>(head);
  item_.size = load<std::uint32_t>(head + 8);
  item_.cpu = load<std::uint16_t>(head + 12);
  item_.kind = static_cast<Item::Kind>(head[14]);
  at_ += kHead;
  if (!fill(padded(item_.size))) return false;
  item_.data = buffer_.data() + at_;
  at_ += padded(item_.size);
  return true;
}

}  // namespace trapline::perf_data
