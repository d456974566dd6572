// Records of perf.data in any order that perf may write them in, with more or less memory: they
// come out by time, equal times as they were added, with the bytes that they had, whether they
// waited in memory or in the temporary file.
#include "merge/source/perf_data/record_order.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;
using perf_data::Block;
using perf_data::Item;
using perf_data::RecordOrder;

class Records {
 public:
  explicit Records(std::size_t memory) : order_(pool_, memory) {}

  // A record's bytes are its number, again and again.
  void add(unsigned after_limit, unsigned words) {
    const std::size_t size = 8 * (1 + words);
    if (block_ == nullptr || at_ + size > Block::kSize) {
      if (block_ != nullptr) pool_.release(block_);
      block_ = pool_.take();
      at_ = 0;
    }
    const std::uint64_t number = times_.size();
    std::byte* bytes = block_->bytes.get() + at_;
    for (std::size_t i = 0; i < size; i += 8) std::memcpy(bytes + i, &number, 8);
    at_ += size;
    times_.push_back(order_.limit() + after_limit);
    order_.add({times_.back(), bytes, block_, static_cast<std::uint32_t>(size),
                static_cast<std::uint16_t>(number % 7), static_cast<Item::Kind>(number % 3)});
  }
  void end_round() { order_.end_round(); }
  void read() {
    for (Item item; order_.next(item);) take(item);
    if (order_.is_full()) fuzz::hold(order_.spill().has_value(), "it cannot be spilled");
  }
  void end() {
    order_.end();
    for (Item item; order_.next(item);) take(item);
    fuzz::hold(order_.status().has_value(), "the temporary file cannot be read");
    fuzz::hold(taken_.size() == times_.size(), "records are missing");
  }

 private:
  void take(const Item& item) {
    std::uint64_t number = 0;
    std::memcpy(&number, item.data, 8);
    fuzz::hold(number < times_.size() && item.time == times_[number],
               "a record is none, or has another time");
    fuzz::hold(item.cpu == number % 7 && item.kind == static_cast<Item::Kind>(number % 3),
               "a record has another CPU or kind");
    for (std::size_t i = 8; i < item.size; i += 8)
      fuzz::hold(std::memcmp(item.data, item.data + i, 8) == 0, "a record has other bytes");
    if (!taken_.empty()) {
      const std::uint64_t before = taken_.back();
      fuzz::hold(times_[before] < item.time || (times_[before] == item.time && before < number),
                 "records are not in order");
    }
    taken_.push_back(number);
  }

  perf_data::BlockPool pool_;
  RecordOrder order_;
  Block* block_ = nullptr;
  std::size_t at_ = 0;
  std::vector<std::uint64_t> times_, taken_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::bounded(64 * size, [&] {
    fuzz::Choices input(fuzz::text_of(data, size));
    Records records(input.up_to(1) == 0 ? 0 : 300u << 10);
    while (input.any()) {
      const unsigned choice = input.up_to(7);
      if (choice == 0) records.end_round();
      if (choice <= 1) {
        records.read();
      } else {
        const unsigned after = input.byte();
        records.add(after, input.byte());
      }
    }
    records.end();
  });
  return 0;
}
