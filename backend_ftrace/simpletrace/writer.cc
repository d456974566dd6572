// The simple backend: producers put records into rings, one thread writes the file.
//
// Each thread uses one of 16 rings, so that up to 16 threads never contend; more share, which is
// slower but correct. The rings are one mapping made when the file is opened and kept until the
// program ends: a producer may hold a pointer into it at any moment.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/clock.h"
#include "backend_ftrace/simpletrace/format.h"
#include "backend_ftrace/simpletrace/ring.h"
#include "trapline/events.h"

namespace trapline::simpletrace {
namespace {

constexpr std::size_t kRings = 16;
static_assert(sizeof(Header) + 32 * (8 + kMaxString) < Ring::kMaxBytes);
constexpr std::size_t kDefaultRing = 1 << 20;

// What a record holds in the ring; the arguments follow as in the file, strings padded to 8 bytes.
struct Entry {
  std::uint64_t id;
  std::uint64_t timestamp;
  std::uint32_t arguments;
  std::uint32_t strings;  // bit i: argument i is a string
};

Ring rings[kRings];
std::atomic<std::uint32_t> next_ring{0};
// Initial-exec: found by one instruction, where the library is linked or loaded at start.
[[gnu::tls_model("initial-exec")]] thread_local Ring* own_ring = nullptr;

std::atomic<bool> enabled{false};
std::atomic<bool> alive{false};
std::atomic<std::uint64_t> total_dropped{0};
std::atomic<std::uint32_t> wake{0};       // futex: there is something to do
std::atomic<std::uint32_t> requested{0};  // flushes
std::atomic<std::uint32_t> completed{0};  // futex: flushes done
std::atomic<bool> stopping{false};
pthread_t thread;
pid_t owner = 0;

// The file, the writer thread's own.
int file = -1;
bool rfc = false;
unsigned char out[1 << 16];
std::size_t out_size = 0;
bool file_failed = false;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                   nullptr, 0);
}

void kick() {
  wake.store(1, std::memory_order_release);
  futex(wake, FUTEX_WAKE_PRIVATE, 1, nullptr);
}

[[gnu::cold, gnu::noinline]] void kick_slow() {
  if (wake.exchange(1, std::memory_order_release) == 0) {
    futex(wake, FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
}

// --- the file -----------------------------------------------------------------------------------

void drain_out() {
  const unsigned char* at = out;
  while (out_size > 0 && !file_failed) {
    const ssize_t written = ::write(file, at, out_size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      file_failed = true;  // a full disk: what follows is counted as dropped
      break;
    }
    at += written;
    out_size -= static_cast<std::size_t>(written);
  }
  out_size = 0;
}

void put(const void* data, std::size_t size) {
  if (out_size + size > sizeof out) drain_out();
  std::memcpy(out + out_size, data, size);
  out_size += size;
}

void put_u64(std::uint64_t value) { put(&value, sizeof value); }

std::uint32_t mapped = 0;  // ids below have their mapping record

void put_mapping(const trapline_event* event, void*) {
  if (event->id < mapped) return;
  const auto length = static_cast<std::uint32_t>(std::strlen(event->name));
  put_u64(kRecordMapping);
  put_u64(event->id);
  put(&length, sizeof length);
  put(event->name, length);
}

[[gnu::cold, gnu::noinline]] void put_mappings_slow() {
  std::uint32_t highest = mapped;
  trapline_events_each("*", put_mapping, nullptr);
  trapline_events_each(
      "*",
      [](const trapline_event* event, void* context) {
        auto& next = *static_cast<std::uint32_t*>(context);
        if (event->id >= next) next = event->id + 1;
      },
      &highest);
  mapped = highest;
}

// Sizes of strings in the ring are padded; in the file they are not.
std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

void put_entry(const unsigned char* payload) {
  Entry entry;
  std::memcpy(&entry, payload, sizeof entry);
  if (file_failed) [[unlikely]] {
    total_dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Events of a library that was loaded after the file was opened.
  if (!rfc && entry.id >= mapped) [[unlikely]]
    put_mappings_slow();
  const unsigned char* at = payload + sizeof entry;
  const unsigned char* const begin = at;
  std::size_t length = 0;
  for (std::uint32_t i = 0; i < entry.arguments; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    at += 8;
    if ((entry.strings >> i & 1) == 0) {
      length += 8;
    } else {
      length += 4 + static_cast<std::size_t>(value);
      at += padded(static_cast<std::size_t>(value));
    }
  }
  if (rfc) {
    const RfcEvent event{kRfcEventMagic, entry.id, entry.timestamp, entry.arguments};
    put(&event, sizeof event);
  } else {
    const RecordHeader header{entry.id, entry.timestamp,
                              static_cast<std::uint32_t>(sizeof(RecordHeader) + length),
                              static_cast<std::uint32_t>(owner)};
    put_u64(kRecordEvent);
    put(&header, sizeof header);
  }
  if (entry.strings == 0 && !rfc) return put(begin, length);
  at = begin;
  for (std::uint32_t i = 0; i < entry.arguments; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    at += 8;
    const bool is_string = (entry.strings >> i & 1) != 0;
    if (rfc) put_u64(is_string ? value : 8);
    if (!is_string) {
      put_u64(value);
      continue;
    }
    const auto size = static_cast<std::uint32_t>(value);
    if (!rfc) put(&size, sizeof size);
    put(at, size);
    at += padded(size);
  }
}

void put_dropped(std::uint64_t count) {
  const std::uint64_t now = read_clock(ClockId::kMono);
  total_dropped.fetch_add(count, std::memory_order_relaxed);
  if (rfc) {
    const RfcEvent event{kRfcEventMagic, kDroppedId, now, 1};
    put(&event, sizeof event);
    put_u64(8);
  } else {
    const RecordHeader header{kDroppedId, now, sizeof(RecordHeader) + 8,
                              static_cast<std::uint32_t>(owner)};
    put_u64(kRecordEvent);
    put(&header, sizeof header);
  }
  put_u64(count);
}

std::uint64_t timestamp_of(const unsigned char* payload) {
  std::uint64_t timestamp = 0;
  std::memcpy(&timestamp, payload + offsetof(Entry, timestamp), sizeof timestamp);
  return timestamp;
}

// Writes what was published before `limit` (a time), oldest first over all rings.
bool drain_rings(std::uint64_t limit) {
  bool any = false;
  const unsigned char* heads[kRings];
  std::size_t sizes[kRings] = {};
  for (std::size_t i = 0; i < kRings; ++i) heads[i] = rings[i].front(sizes[i]);
  for (;;) {
    std::size_t best = kRings;
    std::uint64_t best_time = limit;
    for (std::size_t i = 0; i < kRings; ++i) {
      if (heads[i] == nullptr) continue;
      const std::uint64_t time = timestamp_of(heads[i]);
      if (time >= best_time) continue;
      best_time = time;
      best = i;
    }
    if (best == kRings) break;
    put_entry(heads[best]);
    rings[best].pop(sizes[best]);
    heads[best] = rings[best].front(sizes[best]);
    any = true;
  }
  std::uint64_t dropped = 0;
  for (Ring& ring : rings) dropped += ring.take_dropped();
  if (dropped != 0) put_dropped(dropped);
  return any;
}

void* run(void*) {
  constexpr std::uint64_t kSettle = 50'000;  // ns for slower threads to publish older events
  long patience = 20'000'000;
  for (;;) {
    const std::uint32_t flush = requested.load(std::memory_order_acquire);
    const bool stop = stopping.load(std::memory_order_acquire);
    const bool flushing = flush != completed.load(std::memory_order_relaxed) || stop;
    const std::uint64_t now = read_clock(ClockId::kMono);
    wake.store(0, std::memory_order_relaxed);
    bool full = false;
    for (const Ring& ring : rings) full = full || ring.used() > ring.size() / 2;
    const bool any = drain_rings(flushing || full ? UINT64_MAX : now - kSettle);
    drain_out();
    if (flushing) {
      completed.store(flush, std::memory_order_release);
      futex(completed, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
    }
    if (stop) return nullptr;
    patience = any ? 20'000'000 : patience < 160'000'000 ? patience * 2 : patience;
    const timespec timeout{0, patience};
    futex(wake, FUTEX_WAIT_PRIVATE, 0, &timeout);
  }
}

// Async-signal-safe. Waits at most `seconds` for the writer thread.
void request_flush(int seconds) {
  const std::uint32_t wanted = requested.fetch_add(1, std::memory_order_acq_rel) + 1;
  kick();
  const std::uint64_t until =
      read_clock(ClockId::kMono) + static_cast<std::uint64_t>(seconds) * 1'000'000'000u;
  for (;;) {
    const std::uint32_t done = completed.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(done - wanted) >= 0) return;
    if (read_clock(ClockId::kMono) >= until) return;
    const timespec step{0, 50'000'000};
    futex(completed, FUTEX_WAIT_PRIVATE, done, &step);
  }
}

// --- ends ---------------------------------------------------------------------------------------

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT,
                          SIGTERM, SIGINT, SIGHUP, SIGQUIT};

void on_fatal(int number, siginfo_t*, void*) {
  const int saved = errno;
  if (alive.load(std::memory_order_acquire) && ::getpid() == owner &&
      ::pthread_equal(::pthread_self(), thread) == 0) {
    request_flush(2);
  }
  errno = saved;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void watch_signals() {
  for (const int number : kFatal) {
    struct sigaction current {};
    if (::sigaction(number, nullptr, &current) != 0 || current.sa_handler != SIG_DFL ||
        (current.sa_flags & SA_SIGINFO) != 0) {
      continue;  // the program has its own handler, or ignores it
    }
    struct sigaction ours {};
    ours.sa_sigaction = on_fatal;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(number, &ours, nullptr);
  }
}

// The child has no writer thread; its events are not traced.
void in_child() {
  enabled.store(false, std::memory_order_relaxed);
  alive.store(false, std::memory_order_relaxed);
}

int refuse(char* error, std::size_t size, const char* path, const char* reason) {
  if (error != nullptr && size > 0) std::snprintf(error, size, "trace file %s: %s", path, reason);
  return -1;
}

bool make_rings(std::size_t ring_bytes) {
  if (rings[0].attached()) return true;
  void* memory = ::mmap(nullptr, ring_bytes * kRings, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  std::uint64_t key = 0;
  if (::getrandom(&key, sizeof key, GRND_NONBLOCK) < 0) key = read_clock(ClockId::kTsc);
  for (std::size_t i = 0; i < kRings; ++i) {
    rings[i].attach(static_cast<unsigned char*>(memory) + i * ring_bytes, ring_bytes, key);
  }
  ::pthread_atfork(nullptr, nullptr, in_child);
  std::atexit([] { trapline_simple_close(); });
  return true;
}

bool start_thread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = ::pthread_create(&thread, nullptr, run, nullptr) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Ring& ring_of_thread() {
  if (own_ring == nullptr) [[unlikely]] {
    own_ring = &rings[next_ring.fetch_add(1, std::memory_order_relaxed) % kRings];
  }
  return *own_ring;
}

Ring::Slot begin_entry(Ring& ring, std::uint32_t id, std::uint32_t count, std::uint32_t strings,
                       std::size_t bytes) {
  const std::uint64_t now = read_clock(ClockId::kMono);
  const Ring::Slot slot = ring.reserve(sizeof(Entry) + bytes);
  if (slot.payload == nullptr) [[unlikely]] {
    ring.count_dropped();
    kick_slow();
    return slot;
  }
  const Entry entry{id, now, count, strings};
  std::memcpy(slot.payload, &entry, sizeof entry);
  return slot;
}

void end_entry(Ring& ring, const Ring::Slot& slot, std::size_t bytes) {
  ring.publish(slot, sizeof(Entry) + bytes);
  if (ring.is_filling() && wake.load(std::memory_order_relaxed) == 0) [[unlikely]] {
    kick_slow();
  }
}

}  // namespace
}  // namespace trapline::simpletrace

using namespace trapline::simpletrace;

extern "C" {

int trapline_simple_open(const trapline_simple_options* options, char* error, std::size_t size) {
  const char* path = options->path;
  if (alive.load()) return refuse(error, size, path, "another trace file is open; close it first");
  const std::size_t ring_bytes = options->ring_bytes == 0 ? kDefaultRing : options->ring_bytes;
  if (ring_bytes < 2 * kMaxRecord || (ring_bytes & (ring_bytes - 1)) != 0) {
    return refuse(error, size, path, "ring_bytes must be a power of two from 128 KiB");
  }
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return refuse(error, size, path, std::strerror(errno));
  if (!make_rings(ring_bytes)) {
    ::close(fd);
    return refuse(error, size, path, "no memory for the rings");
  }
  file = fd;
  rfc = options->rfc;
  out_size = 0;
  file_failed = false;
  owner = ::getpid();
  if (rfc) {
    const RfcHeader header{kRfcHeaderMagic, static_cast<std::uint64_t>(owner), kRfcVersion,
                           trapline::read_clock(trapline::ClockId::kMono)};
    put(&header, sizeof header);
  } else {
    const Header header;
    put(&header, sizeof header);
    mapped = 0;
    put_mappings_slow();
  }
  drain_out();
  stopping = false;
  if (file_failed || !start_thread()) {
    ::close(fd);
    return refuse(error, size, path, file_failed ? std::strerror(errno) : "no thread");
  }
  if (options->flush_on_signals) watch_signals();
  alive.store(true, std::memory_order_release);
  enabled.store(true, std::memory_order_release);
  return 0;
}

void trapline_simple_close(void) {
  enabled.store(false);
  if (!alive.exchange(false) || ::getpid() != owner) return;
  stopping = true;
  kick();
  ::pthread_join(thread, nullptr);
  ::close(file);
  file = -1;
}

void trapline_simple_flush(void) {
  if (alive.load(std::memory_order_acquire)) request_flush(10);
}

void trapline_simple_enable(bool on) { enabled.store(on && alive.load()); }

bool trapline_simple_is_open(void) { return alive.load(std::memory_order_acquire); }

std::uint64_t trapline_simple_dropped(void) {
  return total_dropped.load(std::memory_order_relaxed);
}

void trapline_simple_integers(std::uint32_t id, const std::uint64_t* values, std::uint32_t count) {
  if (!enabled.load(std::memory_order_acquire)) return;
  Ring& ring = ring_of_thread();
  const std::size_t bytes = std::size_t{count} * 8;
  const Ring::Slot slot = begin_entry(ring, id, count, 0, bytes);
  if (slot.payload == nullptr) return;
  if (bytes != 0) std::memcpy(slot.payload + sizeof(Entry), values, bytes);
  end_entry(ring, slot, bytes);
}

void trapline_simple_mixed(std::uint32_t id, const trapline_simple_argument* arguments,
                           std::uint32_t count) {
  if (!enabled.load(std::memory_order_acquire)) return;
  std::size_t bytes = 0;
  std::uint32_t strings = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    bytes += 8;
    if (arguments[i].text == nullptr) continue;
    strings |= 1u << i;
    bytes += padded(static_cast<std::size_t>(arguments[i].value));
  }
  Ring& ring = ring_of_thread();
  const Ring::Slot slot = begin_entry(ring, id, count, strings, bytes);
  if (slot.payload == nullptr) return;
  unsigned char* at = slot.payload + sizeof(Entry);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(at, &arguments[i].value, 8);
    at += 8;
    if (arguments[i].text == nullptr) continue;
    const auto length = static_cast<std::size_t>(arguments[i].value);
    std::memcpy(at, arguments[i].text, length);
    at += padded(length);
  }
  end_entry(ring, slot, bytes);
}

trapline_simple_argument trapline_simple_string(const char* text) {
  if (text == nullptr) return {"", 0};
  return {text, ::strnlen(text, kMaxString)};
}

}  // extern "C"
