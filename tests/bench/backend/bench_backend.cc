// What an event costs, side by side in one run: `bench_backend` prints a table and fails when a
// bound does not hold. Medians over alternating blocks of thread CPU time, so that other programs
// on the machine disturb little.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/backend/tracefs_peer.h"
#include "tests/bench/backend/uprobe_peer.h"
#include "tests/support/instance.h"
#include "trace-bench.h"
#include "trace-bench_simple.h"

extern "C" void* __libc_malloc(std::size_t size);
static std::atomic<long> allocations{0};
extern "C" void* malloc(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}

namespace {

constexpr int kBlocks = 31;
constexpr long kEvents = 4000;
constexpr long kUprobes = 500;  // one may take 20 µs

double cpu_now() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Body>
double block(long count, Body body) {
  const double begin = cpu_now();
  for (long i = 0; i < count; ++i) body(static_cast<std::uint64_t>(i));
  return (cpu_now() - begin) / static_cast<double>(count);
}

bool failed = false;

void row(const char* what, double value, const char* bound, bool good) {
  fmt::print("{:<52} {:>8.2f}  {:<24} {}\n", what, value, bound, good ? "ok" : "MISSED");
  failed = failed || !good;
}

void figure(const char* what, double value) { fmt::print("{:<52} {:>8.2f}\n", what, value); }

// A line for scripts/bench, as tests/bench/figures.py says.
void tell(const char* name, double ns, double ratio, const char* peer) {
  fmt::print("figure\t{}\t{:.4g}\tns\t{:.4g}\t{}\n", name, ns, ratio, peer);
}

void tell(const char* name, double ns) { fmt::print("figure\t{}\t{:.4g}\tns\t-\t-\n", name, ns); }

void bench_ftrace(const trapline::test::Instance& instance) {
  const trapline_ftrace_options options{instance.name().c_str(), nullptr};
  char error[256];
  if (trapline_ftrace_set_default(&options, error, sizeof error) != 0) std::exit(1);
  const int fd = ::open(instance.path("trace_marker").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || tracefs_peer_open(instance.name().c_str()) != 0) std::exit(1);
  trapline_events_set("bench_write", true);
  const auto ours = [](std::uint64_t i) { trace_bench_write(0xfe003000 + i, 0x1234, 4); };
  const auto by_hand = [fd](std::uint64_t i) {
    char text[4096];
    const int size = std::snprintf(text, sizeof text, "bench_write addr 0x%lx value 0x%x size %u",
                                   0xfe003000 + i, 0x1234u, 4u);
    if (::write(fd, text, static_cast<std::size_t>(size)) < 0) std::abort();
  };
  const auto peer = [](std::uint64_t i) {
    if (tracefs_peer_write(0xfe003000 + i, 0x1234, 4) < 0) std::abort();
  };
  const auto uprobe = [&instance](auto* function) {
    const trapline::bench::Uprobe probe(instance, function);
    if (!probe.is_on()) return 0.0;
    return block(kUprobes, [function](std::uint64_t i) { function(0xfe003000 + i, 0x1234, 4); });
  };
  std::vector<double> a, b, c, one, five, a_b, a_c;
  for (int i = -2; i < kBlocks; ++i) {
    const double ours_ns = block(kEvents, ours);
    const double hand_ns = block(kEvents, by_hand);
    const double peer_ns = block(kEvents, peer);
    const double one_ns = uprobe(trapline::bench::trapline_probe_1);
    const double five_ns = uprobe(trapline::bench::trapline_probe_5);
    if (i < 0) continue;
    a.push_back(ours_ns), b.push_back(hand_ns), c.push_back(peer_ns);
    one.push_back(one_ns), five.push_back(five_ns);
    a_b.push_back(ours_ns / hand_ns), a_c.push_back(ours_ns / peer_ns);
  }
  figure("ftrace event, generated (ns)", median(a));
  figure("snprintf + write by hand (ns)", median(b));
  figure("tracefs_printf (ns)", median(c));
  figure("uprobe at an SDT probe, 3 arguments (ns)", median(one));
  figure("uprobe at a nop of five bytes (ns)", median(five));
  row("generated / by hand", median(a_b), "<= 1.05", median(a_b) <= 1.05);
  row("generated / tracefs_printf", median(a_c), "<= 0.95", median(a_c) <= 0.95);
  tell("ftrace event", median(a), median(a_b), "snprintf and write");
  tell("ftrace event", median(a), median(a_c), "tracefs_printf");
  const long before = allocations;
  block(kEvents, ours);
  row("allocations in ftrace events", static_cast<double>(allocations - before), "0",
      allocations == before);
  trapline_events_set("bench_write", false);
  tracefs_peer_close();
  trapline_ftrace_close(trapline_ftrace_default());  // events are off: it is not used again
  ::close(fd);
}

// Eight calls in a row, so that the loop around them counts for little.
void bench_disabled() {
  constexpr long kCalls = 500'000;
  const auto barrier = [] { asm volatile("" ::: "memory"); };
  std::vector<double> off, empty;
  for (int i = 0; i < kBlocks; ++i) {
    const auto call = [&](std::uint64_t n) {
      trace_bench_write(n, 1, 4);
      barrier();
    };
    off.push_back(block(kCalls,
                        [&](std::uint64_t n) {
                          call(n), call(n), call(n), call(n), call(n), call(n), call(n), call(n);
                        }) /
                  8);
    empty.push_back(block(kCalls, [&](std::uint64_t) { barrier(); }));
  }
  figure("empty loop, one turn (ns)", median(empty));
  row("disabled event (ns)", median(off), "<= 0.5", median(off) <= 0.5);
  tell("disabled event", median(off));
}

// Bursts that fit into the ring, so that the cost is the producer's; drops are counted and told.
void bench_simple(const std::string& path) {
  trapline_simple_options options{};
  options.path = path.c_str();
  options.ring_bytes = 8u << 20;
  char error[256];
  if (trapline_simple_open(&options, error, sizeof error) != 0) {
    fmt::print(stderr, "{}\n", error);
    std::exit(1);
  }
  trapline_events_set("bench_simple", true);
  constexpr long kBurst = 60'000;
  const auto event = [](std::uint64_t i) { trace_bench_simple(static_cast<int>(i), 2, i * 3, 4); };
  std::vector<double> one;
  long allocated = 0;
  for (int i = -2; i < kBlocks; ++i) {
    const long before = allocations;
    const double ns = block(kBurst, event);
    if (i >= 0) {
      allocated += allocations - before;
      one.push_back(ns);
    }
    trapline_simple_flush();
  }
  row("simple event, 4 integers, 1 thread (ns)", median(one), "<= 60", median(one) <= 60);
  tell("simple event", median(one));
  row("allocations in simple events", static_cast<double>(allocated), "0", allocated == 0);
  for (const int threads : {2, 4}) {
    std::vector<double> each;
    // Each thread takes the next ring: the first rounds only make the rings' pages present.
    for (int i = -32; i < 21; ++i) {
      std::vector<double> ns(static_cast<std::size_t>(threads));
      std::vector<std::thread> running;
      for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] { ns[static_cast<std::size_t>(t)] = block(kBurst, event); });
      }
      for (std::thread& thread : running) thread.join();
      if (i >= 0) each.push_back(median(ns));
      trapline_simple_flush();
    }
    const std::string what = fmt::format("simple event, {} threads (CPU ns each)", threads);
    if (threads == 2) {
      row(what.c_str(), median(each), "<= 1.5 x 1 thread", median(each) <= 1.5 * median(one));
    } else {
      figure(what.c_str(), median(each));
    }
  }
  const auto dropped = static_cast<double>(trapline_simple_dropped());
  trapline_simple_close();
  figure("simple events dropped in all", dropped);
  ::unlink(path.c_str());
}

}  // namespace

int main() {
  if (!trapline::test::Instance::usable()) {
    fmt::print(stderr, "needs root and tracefs at /sys/kernel/tracing\n");
    return 77;
  }
  {
    const trapline::test::Instance instance;
    bench_ftrace(instance);
  }
  bench_disabled();
  bench_simple("/dev/shm/trapline-bench-" + std::to_string(::getpid()));
  return failed ? 1 : 0;
}
