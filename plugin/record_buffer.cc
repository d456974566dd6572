#include "plugin/record_buffer.h"

#include <algorithm>

namespace trapline {
namespace {

// Numbers of the records in a series, and of those that its LOST records report as gone.
struct Content {
  std::uint64_t records = 0;
  std::uint64_t gone = 0;
};
Content content_of(std::span<const Record> records) {
  Content content;
  for (const Record& record : records) {
    const bool is_lost = record.type() == RecordType::kLost;
    (is_lost ? content.gone : content.records) += is_lost ? record.address() : 1;
  }
  return content;
}

}  // namespace

std::vector<Record> thinned_out(std::span<const Record> records) {
  std::vector<Record> exits;   // exits of functions entered before this buffer
  std::vector<Record> opened;  // entries without their exits so far
  std::uint64_t lost = 0;
  std::uint64_t lost_time = records.empty() ? 0 : records.front().time();
  for (const Record& record : records) {
    switch (record.type()) {
      case RecordType::kEntry:
        opened.push_back(record);
        break;
      case RecordType::kExit:
        if (opened.empty()) {
          exits.push_back(record);
        } else {
          opened.pop_back();
          lost += 2;
        }
        break;
      case RecordType::kLost:
        lost += record.address();
        break;
      case RecordType::kEvent:
        ++lost;
        break;
    }
  }
  if (!exits.empty()) lost_time = std::max(lost_time, exits.back().time());
  if (!opened.empty()) lost_time = std::min(lost_time, opened.front().time());
  std::vector<Record> kept = std::move(exits);
  if (lost > 0)
    kept.emplace_back(RecordType::kLost, lost_time, 0, std::min(lost, Record::kAddressMask));
  kept.insert(kept.end(), opened.begin(), opened.end());
  return kept;
}

void RecordBuffer::flush() {
  if (!records_ || next_ == records_.get()) return;
  const std::size_t total = pending();
  if (stopped_) {
    lost_ += content_of({records_.get(), total}).records;
    next_ = records_.get();
    return;
  }
  const std::size_t done = sink_.append(tid_, {records_.get(), total}) / sizeof(Record);
  written_ += done;
  if (done < total) {
    std::copy(records_.get() + done, next_, records_.get());
    next_ -= done;
    thin_out();
    return;
  }
  next_ = records_.get();
}

// Makes room after a failed write, for the records until the next attempt.
void RecordBuffer::thin_out() {
  const Content before = content_of({records_.get(), pending()});
  const std::vector<Record> kept = thinned_out({records_.get(), pending()});
  if (kept.size() > capacity_ / 2) {
    // The open entries, and the exits of entries written before, need more than half the buffer,
    // so the file cannot stay balanced. The reader sees a LOST record.
    lost_ += before.records;
    records_[0] = Record(RecordType::kLost, last_time_, 0, before.records + before.gone);
    next_ = records_.get() + 1;
    return;
  }
  lost_ += before.records - content_of(kept).records;
  next_ = std::copy(kept.begin(), kept.end(), records_.get());
}

void RecordBuffer::make_room() {
  if (!records_) {
    records_ = std::make_unique_for_overwrite<Record[]>(capacity_);
    next_ = records_.get();
    limit_ = next_ + capacity_;
    return;
  }
  if (clock_ != nullptr) clock_->adjust();
  flush();
}

void RecordBuffer::release() {
  flush();
  if (records_ && next_ == records_.get()) {
    records_.reset();
    next_ = limit_ = nullptr;
    sink_.release(tid_);
  }
}

void RecordBuffer::stop() {
  flush();
  stopped_ = true;
  flush();  // drops what could not be written
}

}  // namespace trapline
