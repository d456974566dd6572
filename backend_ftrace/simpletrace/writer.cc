// The simple backend: producers put records into rings and one thread writes the file.
//
// Each thread uses one of 16 rings, so that up to 16 threads never contend; further threads share
// rings, which is slower but correct. The rings are one mapping, made when the file is opened and
// kept until the program ends, because a producer may hold a pointer into the mapping at any
// moment.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/blocked_signals.h"
#include "backend_ftrace/clock.h"
#include "backend_ftrace/events/runtime.h"
#include "backend_ftrace/futex.h"
#include "backend_ftrace/simpletrace/format.h"
#include "backend_ftrace/simpletrace/ring.h"
#include "backend_ftrace/simpletrace/trace_file.h"
#include "trapline/events.h"

namespace trapline::simpletrace {
namespace {

constexpr std::size_t kRings = 16;
static_assert(sizeof(Entry) + 32 * (8 + kMaxString) < Ring::kMaxBytes);
constexpr std::size_t kDefaultRing = 1 << 20;

Ring rings[kRings];
std::atomic<std::uint32_t> next_ring{0};
// Initial-exec: one instruction finds the variable if the library is linked or loaded at start.
[[gnu::tls_model("initial-exec")]] thread_local Ring* own_ring = nullptr;

std::atomic<bool> enabled{false};
std::atomic<bool> alive{false};
std::atomic<std::uint32_t> wake{0};       // futex: the writer thread has work
std::atomic<std::uint32_t> requested{0};  // number of flushes
std::atomic<std::uint32_t> completed{0};  // futex: number of flushes done
std::atomic<bool> stopping{false};
pthread_t writer;
pid_t owner = 0;

TraceFile file;  // only the writer thread uses it

// --- the open file: guarded by `opening`, except in the writer thread's switch_file() ----------

pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
char open_path[PATH_MAX];
bool is_unnamed = false;  // the file is trace-PID, a name that nobody chose

// Progress of handing the writer thread another file to continue in.
enum class Handover : std::uint8_t { kNone, kWanted, kBusy };
std::atomic<Handover> handover{Handover::kNone};
int next_fd = -1;
bool next_rfc = false;
int switch_errno = 0;
bool old_had_entries = false;

void kick() {
  wake.store(1, std::memory_order_release);
  futex_wake_all(wake);
}

[[gnu::cold, gnu::noinline]] void kick_slow() {
  if (wake.exchange(1, std::memory_order_release) == 0) futex_wake_all(wake);
}

std::uint64_t timestamp_of(const unsigned char* payload) {
  std::uint64_t timestamp = 0;
  std::memcpy(&timestamp, payload + offsetof(Entry, timestamp), sizeof timestamp);
  return timestamp;
}

// Writes the records whose time is before `limit`, the oldest of all rings first.
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
    file.put_entry(heads[best]);
    rings[best].pop(sizes[best]);
    heads[best] = rings[best].front(sizes[best]);
    any = true;
  }
  std::uint64_t dropped = 0;
  for (Ring& ring : rings) dropped += ring.take_dropped();
  if (dropped != 0) file.put_dropped(dropped);
  return any;
}

void switch_file() {
  Handover wanted = Handover::kWanted;
  if (!handover.compare_exchange_strong(wanted, Handover::kBusy)) return;
  old_had_entries = file.has_entries();
  switch_errno = file.switch_to(next_fd, next_rfc) ? 0 : errno;
  handover.store(Handover::kNone);
}

void* run(void*) {
  constexpr std::uint64_t kSettle = 50'000;  // ns in which slower threads publish older events
  long patience = 20'000'000;
  for (;;) {
    const std::uint32_t flush = requested.load(std::memory_order_acquire);
    const bool stop = stopping.load(std::memory_order_acquire);
    const bool flushing = flush != completed.load(std::memory_order_relaxed) || stop;
    const std::uint64_t now = read_clock(ClockId::kMono);  // events after this are not in order yet
    wake.store(0, std::memory_order_relaxed);
    bool full = false;
    for (const Ring& ring : rings) full = full || ring.used() > ring.size() / 2;
    const bool any = drain_rings(stop ? UINT64_MAX : flushing || full ? now + 1 : now - kSettle);
    file.drain();
    if (flushing) {
      switch_file();
      completed.store(flush, std::memory_order_release);
      futex_wake_all(completed);
    }
    if (stop) return nullptr;
    patience = any ? 20'000'000 : patience < 160'000'000 ? patience * 2 : patience;
    futex_wait(wake, 0, {0, patience});
  }
}

// Waits at most `seconds` for the writer thread to flush. If the whole process was stopped
// meanwhile, that counts as one slice of the wait. Async-signal-safe.
void request_flush(int seconds) {
  constexpr std::uint64_t kSlice = 50'000'000;
  const std::uint32_t wanted = requested.fetch_add(1, std::memory_order_acq_rel) + 1;
  kick();
  const std::uint64_t most = static_cast<std::uint64_t>(seconds) * 1'000'000'000u;
  std::uint64_t before = read_clock(ClockId::kMono);
  for (std::uint64_t waited = 0; waited < most;) {
    const std::uint32_t done = completed.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(done - wanted) >= 0) return;
    futex_wait(completed, done, {0, kSlice});
    const std::uint64_t now = read_clock(ClockId::kMono);
    waited += now - before < kSlice ? now - before : kSlice;
    before = now;
  }
}

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT,
                          SIGTERM, SIGINT, SIGHUP, SIGQUIT};

void on_fatal(int number, siginfo_t*, void*) {
  const int saved = errno;
  if (alive.load(std::memory_order_acquire) && ::getpid() == owner &&
      ::pthread_equal(::pthread_self(), writer) == 0) {
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
      continue;  // the program handles or ignores the signal itself
    }
    struct sigaction ours {};
    ours.sa_sigaction = on_fatal;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(number, &ours, nullptr);
  }
}

// Stops tracing in a child of fork, which has no writer thread. What is in the rings is the
// parent's; records that other threads had reserved are never published here.
void in_child() {
  enabled.store(false, std::memory_order_relaxed);
  alive.store(false, std::memory_order_relaxed);
  for (Ring& ring : rings) ring.clear();
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
  const BlockedSignals blocked;
  return ::pthread_create(&writer, nullptr, run, nullptr) == 0;
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

// Opens the file and starts the writer thread. Returns nullptr, or what failed.
const char* start(int fd, const trapline_simple_options& options) {
  owner = ::getpid();
  const bool written = file.open(fd, options.rfc, owner);
  const int cause = errno;
  stopping = false;
  if (!written || !start_thread()) {
    file.close();
    return written ? "no thread" : std::strerror(cause);
  }
  if (options.flush_on_signals) watch_signals();
  alive.store(true, std::memory_order_release);
  enabled.store(true, std::memory_order_release);
  return nullptr;
}

// Lets the writer thread write everything so far and continue in another file. Returns nullptr, or
// what failed. Removes the old file if it had the default name and no event.
const char* hand_over(int fd, bool rfc) {
  next_fd = fd;
  next_rfc = rfc;
  handover.store(Handover::kWanted);
  request_flush(10);
  Handover wanted = Handover::kWanted;
  if (handover.compare_exchange_strong(wanted, Handover::kNone)) {
    ::close(fd);
    return "the present trace file's disk does not answer";
  }
  if (wanted == Handover::kBusy) return "its disk does not answer";
  if (switch_errno != 0) return std::strerror(switch_errno);
  if (is_unnamed && !old_had_entries) ::unlink(open_path);
  return nullptr;
}

int open_file(const trapline_simple_options* options, bool in_place_of_named, char* error,
              std::size_t size) {
  char unnamed[32];
  std::snprintf(unnamed, sizeof unnamed, "trace-%d", static_cast<int>(::getpid()));
  const char* path = options->path != nullptr ? options->path : unnamed;
  const std::size_t ring_bytes = options->ring_bytes == 0 ? kDefaultRing : options->ring_bytes;
  if (ring_bytes < 2 * kMaxRecord || (ring_bytes & (ring_bytes - 1)) != 0) {
    return refuse(error, size, path, "ring_bytes must be a power of two from 128 KiB");
  }
  pthread_mutex_lock(&opening);
  if (!in_place_of_named && alive.load() && !is_unnamed) {
    pthread_mutex_unlock(&opening);
    return refuse(error, size, options->path != nullptr ? path : "without a name",
                  "another trace file is open; close it first");
  }
  const char* reason = "no memory for the rings";
  const int fd = open_trace_path(path, &reason);
  if (fd >= 0 && alive.load()) {
    reason = hand_over(fd, options->rfc);
    enabled.store(enabled.load() || reason == nullptr);
  } else if (fd >= 0 && !make_rings(ring_bytes)) {
    ::close(fd);
  } else if (fd >= 0) {
    reason = start(fd, *options);
  }
  if (reason == nullptr) {
    std::snprintf(open_path, sizeof open_path, "%s", path);
    is_unnamed = options->path == nullptr;
  }
  pthread_mutex_unlock(&opening);
  return reason == nullptr ? 0 : refuse(error, size, path, reason);
}

}  // namespace
}  // namespace trapline::simpletrace

namespace trapline {

TraceFileState trace_file_state(char* path, std::size_t path_size) {
  pthread_mutex_lock(&simpletrace::opening);
  const TraceFileState state{simpletrace::alive.load(), simpletrace::enabled.load(),
                             simpletrace::file.is_rfc()};
  std::snprintf(path, path_size, "%s", state.open ? simpletrace::open_path : "");
  pthread_mutex_unlock(&simpletrace::opening);
  return state;
}

}  // namespace trapline

using namespace trapline::simpletrace;

extern "C" {

int trapline_simple_open(const trapline_simple_options* options, char* error, std::size_t size) {
  return open_file(options, false, error, size);
}

int trapline_simple_switch(const trapline_simple_options* options, char* error, std::size_t size) {
  return open_file(options, true, error, size);
}

void trapline_simple_close(void) {
  // In a child of fork the lock may be taken for ever.
  if (!alive.load() || ::getpid() != owner) return;
  pthread_mutex_lock(&opening);
  enabled.store(false);
  if (alive.exchange(false) && ::getpid() == owner) {
    stopping = true;
    kick();
    ::pthread_join(writer, nullptr);
    file.close();
  }
  pthread_mutex_unlock(&opening);
}

void trapline_simple_flush(void) {
  if (alive.load(std::memory_order_acquire)) request_flush(10);
}

void trapline_simple_enable(bool on) { enabled.store(on && alive.load()); }

bool trapline_simple_is_open(void) { return alive.load(std::memory_order_acquire); }

std::uint64_t trapline_simple_dropped(void) { return file.dropped(); }

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
