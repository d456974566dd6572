// Waits for a word of this process to change, and wakes those who wait. Async-signal-safe.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace trapline {

// Returns when the word differs from `value`, on a wake-up, after `patience`, or spuriously.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, timespec patience) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value,
            &patience, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX,
            nullptr, nullptr, 0);
}

}  // namespace trapline
