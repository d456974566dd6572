#include "merge/source/trace_dat/layout_reader.h"

#include <cstring>

namespace trapline::trace_dat {
namespace {

constexpr std::uint64_t kLongestString = 4096;

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void MetaReader::fail_here(std::string_view what) {
  if (!ok()) return;
  status_ = fail(ErrorKind::kDamaged,
                 "{}: damaged or cut off: {} at offset {}{}; record again, or restore it with "
                 "trace-cmd restore",
                 file_->path(), what, at_, in_memory_ ? " of a compressed section" : "");
}

bool MetaReader::fits(std::uint64_t size) {
  if (!ok()) return false;
  if (size <= end_ - at_) return true;
  fail_here("the header ends early");
  return false;
}

void MetaReader::fill(std::span<std::byte> into) {
  if (!fits(into.size())) return;
  if (in_memory_) {
    std::memcpy(into.data(), memory_.data() + at_, into.size());
  } else {
    status_ = file_->read(at_, into);
  }
  at_ += into.size();
}

std::string MetaReader::bytes(std::uint64_t size) {
  if (!fits(size)) return {};
  std::string text(size, '\0');
  fill(writable(text));
  return text;
}

std::string MetaReader::c_string() {
  if (!fits(1)) return {};
  const std::uint64_t before = at_;
  std::string text = bytes(std::min(kLongestString, end_ - at_));
  const auto end = text.find('\0');
  if (ok() && end == std::string::npos) fail_here("a string has no end");
  if (!ok()) return {};
  text.resize(end);
  at_ = before + end + 1;
  return text;
}

void MetaReader::expect(std::string_view magic) {
  if (bytes(magic.size()) != magic && ok()) {
    at_ -= magic.size();
    fail_here("a section does not begin as it should");
  }
}

void MetaReader::skip(std::uint64_t size) {
  if (fits(size)) at_ += size;
}

}  // namespace trapline::trace_dat
