// A ring of records between any number of producers and one consumer.
//
// Guarantees: a producer never waits, locks or allocates; a record is either whole in the ring or
// counted as dropped; records of one producer come out in its order.
//
//          tail                 head
//   ........|rec|rec|...|rec|....|.......     producers move head by compare-and-swap, fill the
//            consumer reads                   record and publish it by its first word
//
// A record's first word is 0 until it is published: its size in bytes, bit 63 for padding up to the
// end of the ring. The consumer zeroes what it has read before it moves tail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trapline::simpletrace {

class Ring {
 public:
  void attach(void* memory, std::size_t size) {
    data_ = static_cast<unsigned char*>(memory);
    size_ = size;
  }
  [[nodiscard]] bool attached() const { return data_ != nullptr; }

  // Room for `bytes` of payload (a multiple of 8), or nullptr when the ring is full.
  [[nodiscard]] unsigned char* reserve(std::size_t bytes) {
    const std::size_t wanted = bytes + kWord;
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::size_t at = head & (size_ - 1);
      const std::size_t to_end = size_ - at;
      const std::size_t padding = wanted > to_end ? to_end : 0;
      const std::uint64_t next = head + padding + wanted;
      if (next - tail_.load(std::memory_order_acquire) > size_) return nullptr;
      if (!head_.compare_exchange_weak(head, next, std::memory_order_relaxed)) continue;
      if (padding != 0) word(at).store(kPadding | padding, std::memory_order_release);
      return data_ + ((head + padding) & (size_ - 1)) + kWord;
    }
  }
  void publish(unsigned char* payload, std::size_t bytes) {
    word(static_cast<std::size_t>(payload - kWord - data_))
        .store(bytes + kWord, std::memory_order_release);
  }
  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // --- consumer ---
  // The oldest record's payload, or nullptr: none is published. Stays valid until pop().
  [[nodiscard]] const unsigned char* front(std::size_t& bytes) {
    for (;;) {
      const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
      const std::size_t at = tail & (size_ - 1);
      const std::uint64_t size = word(at).load(std::memory_order_acquire);
      if (size == 0) return nullptr;
      if ((size & kPadding) == 0) {
        bytes = static_cast<std::size_t>(size) - kWord;
        return data_ + at + kWord;
      }
      release(at, static_cast<std::size_t>(size & ~kPadding));
    }
  }
  void pop(std::size_t bytes) {
    release(tail_.load(std::memory_order_relaxed) & (size_ - 1), bytes + kWord);
  }
  [[nodiscard]] std::uint64_t take_dropped() {
    return dropped_.exchange(0, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t used() const {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kWord = 8;
  static constexpr std::uint64_t kPadding = std::uint64_t{1} << 63;

  std::atomic_ref<std::uint64_t> word(std::size_t at) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(data_ + at));
  }
  void release(std::size_t at, std::size_t bytes) {
    std::memset(data_ + at, 0, bytes);
    tail_.store(tail_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }

  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace trapline::simpletrace
