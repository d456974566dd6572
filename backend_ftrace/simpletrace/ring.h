// A ring of records between any number of producers and one consumer.
//
// Guarantees: a producer never waits, locks or allocates; a record is either whole in the ring or
// counted as dropped; records of one producer come out in its order.
//
//          tail                 head
//   ........|rec|rec|...|rec|....|.......     producers move head by compare-and-swap, fill the
//            consumer reads                   record and publish it by its first word
//
// A record's first word is its position and size, mixed with a random key, so that neither the word
// left from the previous lap nor the content of an older record can match. The consumer therefore
// writes nothing but `tail` and takes no cache line away that a producer has modified.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace trapline::simpletrace {

class Ring {
 public:
  struct Slot {
    unsigned char* payload = nullptr;  // nullptr: the ring is full
    std::uint64_t position = 0;
  };

  // Uses `size` bytes at `memory`, a power of two, as the ring.
  void attach(void* memory, std::size_t size, std::uint64_t key) {
    data_ = static_cast<unsigned char*>(memory);
    size_ = size;
    key_ = key;
  }
  [[nodiscard]] bool attached() const { return data_ != nullptr; }

  // Reserves room for `bytes` of payload, a multiple of 8 below kMaxBytes.
  [[nodiscard]] Slot reserve(std::size_t bytes) {
    const std::size_t wanted = bytes + kWord;
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::size_t to_end = size_ - (head & (size_ - 1));
      const std::size_t padding = wanted > to_end ? to_end : 0;
      const std::uint64_t next = head + padding + wanted;
      if (next - known_tail_.load(std::memory_order_acquire) > size_ &&
          next - refresh_tail() > size_) {
        // The consumer may have passed this head, which others have moved on since it was read.
        const std::uint64_t seen = std::exchange(head, head_.load(std::memory_order_relaxed));
        if (head == seen) return {};
        continue;
      }
      if (!head_.compare_exchange_weak(head, next, std::memory_order_relaxed)) continue;
      if (padding != 0) word(head).store(mark(head, kPadding), std::memory_order_release);
      head += padding;
      __builtin_prefetch(data_ + ((head + kAhead) & (size_ - 1)), 1);
      return {data_ + (head & (size_ - 1)) + kWord, head};
    }
  }
  void publish(const Slot& slot, std::size_t bytes) {
    word(slot.position)
        .store(mark(slot.position, (bytes + kWord) / kWord), std::memory_order_release);
  }
  // Returns whether a quarter of the ring is in use, so that the consumer should be woken.
  [[nodiscard]] bool is_filling() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return head - known_tail_.load(std::memory_order_relaxed) > size_ / 4 &&
           head - refresh_tail() > size_ / 4;
  }
  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // --- consumer ---
  // Returns the oldest record's payload, valid until pop(); nullptr if none is published.
  [[nodiscard]] const unsigned char* front(std::size_t& bytes) {
    for (;;) {
      const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
      if (tail == known_head_) known_head_ = head_.load(std::memory_order_acquire);
      if (tail == known_head_) return nullptr;
      const std::uint64_t found = word(tail).load(std::memory_order_acquire) ^ key_;
      if (found >> kSizeBits != (tail / kWord & (~std::uint64_t{0} >> kSizeBits))) return nullptr;
      const std::size_t units = found & kPadding;
      if (units != kPadding) {
        bytes = units * kWord - kWord;
        return data_ + (tail & (size_ - 1)) + kWord;
      }
      release(size_ - (tail & (size_ - 1)));
    }
  }
  void pop(std::size_t bytes) { release(bytes + kWord); }
  // Forgets all records, also reserved ones, in a process with neither producers nor a consumer.
  void clear() {
    known_head_ = head_.load();
    known_tail_ = known_head_;
    tail_ = known_head_;
    dropped_ = 0;
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
  static constexpr unsigned kSizeBits = 16;
  static constexpr std::uint64_t kPadding = (1u << kSizeBits) - 1;
  // How many bytes ahead reserve() prefetches the cache line that a later record will use.
  static constexpr std::size_t kAhead = 512;

 public:
  static constexpr std::size_t kMaxBytes = (kPadding - 2) * kWord;

 private:
  std::uint64_t refresh_tail() {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    known_tail_.store(tail, std::memory_order_release);
    return tail;
  }
  std::uint64_t mark(std::uint64_t position, std::uint64_t units) const {
    return (position / kWord << kSizeBits | units) ^ key_;
  }
  std::atomic_ref<std::uint64_t> word(std::uint64_t position) const {
    return std::atomic_ref<std::uint64_t>(
        *reinterpret_cast<std::uint64_t*>(data_ + (position & (size_ - 1))));
  }
  void release(std::size_t bytes) {
    tail_.store(tail_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }

  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t key_ = 0;
  // Each side works with its last copy of the other's counter. Otherwise the two cache lines would
  // travel between the CPUs with every record.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> known_tail_{0};
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t known_head_ = 0;
};

}  // namespace trapline::simpletrace
