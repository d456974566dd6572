#include "merge/source/trace_text/text_lines.h"

#include <algorithm>
#include <span>

namespace trapline::trace_text {
namespace {

constexpr std::size_t kTextBlock = 256U << 10;

}  // namespace

TextLines::TextLines(const File& file, std::uint64_t from, std::size_t longest)
    : file_(&file), longest_(longest), begin_(from) {
  if (from == 0 || from > file.size()) return;
  --begin_;  // whose line may end right before
  std::string_view partial;
  (void)next(partial);
}

// Another block after what is left of the last one; false at the end.
bool TextLines::fill() {
  block_.erase(0, at_);
  begin_ += at_;
  at_ = last_ = 0;
  const std::uint64_t end = begin_ + block_.size();
  if (!status_ || end >= file_->size()) return false;
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(file_->size() - end, kTextBlock));
  const std::size_t before = block_.size();
  block_.resize(before + size);
  status_ = file_->read(end, std::as_writable_bytes(std::span(block_).subspan(before)));
  if (!status_) block_.resize(before);
  return status_.has_value();
}

bool TextLines::next(std::string_view& line) {
  std::size_t end = block_.find('\n', at_);
  while (end == block_.npos && block_.size() - at_ <= longest_ && fill())
    end = block_.find('\n', at_);
  if (at_ == block_.size()) return false;
  last_ = at_;
  whole_ = end != block_.npos;
  end = std::min(end, block_.size());
  line = std::string_view(block_).substr(at_, end - at_);
  at_ = std::min(end + 1, block_.size());
  return true;
}

}  // namespace trapline::trace_text
