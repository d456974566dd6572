// What a look-up costs in the tables of the hot path, ours against Abseil's flat_hash_map. Built by
// hand, since nothing else needs Abseil (Debian: libabsl-dev):
//
//   g++ -std=c++20 -O2 -I. tests/bench/merge/flat_map.cc -o flat_map
//       $(pkg-config --cflags --libs absl_flat_hash_map fmt) && ./flat_map    (one line)
//
// Medians in ns, 2026-11-21 (Abseil 20220623, two virtual cores at 2.1 GHz under load; compare
// ratios):
//
//               ours  Abseil                 ours  Abseil
//     2 threads  2.3     5.1       8 names   12.9    16.8
//    16 threads  4.7     5.0     128 names   15.2    18.3
//   256 threads  6.5     6.1    4096 names   20.4    21.4
//  8192 threads  5.5     7.0
//
// Threads: state by thread id, as each event looks it up. Names: the number of a text, as each of
// QEMU's events looks it up.
#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <random>

#include "merge/model/names.h"
#include "merge/model/thread_table.h"

namespace {

using namespace trapline;

constexpr std::size_t kLookups = 1u << 22;

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// The median of nine runs, ns per look-up.
template <typename Work>
double measure(Work&& work) {
  std::vector<double> runs;
  std::uint64_t kept = 0;
  for (int i = 0; i < 9; ++i) {
    const double start = now();
    kept += work();
    runs.push_back((now() - start) / kLookups);
  }
  if (kept == 42) fmt::print(" ");  // the work is not left out
  std::nth_element(runs.begin(), runs.begin() + 4, runs.end());
  return runs[4];
}

struct State {
  std::uint64_t count = 0;
};

void threads(std::size_t count) {
  std::mt19937 random(3);
  std::vector<ThreadId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(ThreadId{static_cast<std::int32_t>(4000 + random() % 60'000)});
  }
  std::vector<ThreadId> order(1u << 12);
  for (ThreadId& id : order) id = ids[random() % ids.size()];
  const double ours = measure([&] {
    ThreadTable<State> table;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kLookups; ++i) {
      sum += table.get(order[i % order.size()], 1u << 16)->count++;
    }
    return sum;
  });
  const double absl = measure([&] {
    absl::flat_hash_map<std::int32_t, std::uint32_t> index;
    std::deque<State> states;  // references stay valid
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kLookups; ++i) {
      const auto [at, made] = index.try_emplace(static_cast<std::int32_t>(order[i % order.size()]),
                                                static_cast<std::uint32_t>(states.size()));
      if (made) states.emplace_back();
      sum += states[at->second].count++;
    }
    return sum;
  });
  fmt::print("{:6} threads   ours {:5.2f} ns   Abseil {:5.2f} ns   {:.2f}\n", count, ours, absl,
             absl / ours);
}

void names(std::size_t count) {
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(fmt::format("memory_region_ops_{}_{}", i % 2 == 0 ? "read" : "write", i));
  }
  std::vector<std::string_view> order(1u << 12);
  for (auto& text : order) text = texts[random() % texts.size()];
  const double ours = measure([&] {
    Names table;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kLookups; ++i) sum += table.id(order[i % order.size()]);
    return sum;
  });
  const double absl = measure([&] {
    absl::flat_hash_map<std::string_view, NameId> index;
    std::deque<std::string> kept;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kLookups; ++i) {
      const std::string_view text = order[i % order.size()];
      auto at = index.find(text);
      if (at == index.end()) {
        kept.emplace_back(text);
        at = index.emplace(kept.back(), static_cast<NameId>(kept.size())).first;
      }
      sum += at->second;
    }
    return sum;
  });
  fmt::print("{:6} names     ours {:5.2f} ns   Abseil {:5.2f} ns   {:.2f}\n", count, ours, absl,
             absl / ours);
}

}  // namespace

int main() {
  for (const std::size_t count : {2u, 16u, 256u, 8192u}) threads(count);
  for (const std::size_t count : {8u, 128u, 4096u}) names(count);
}
