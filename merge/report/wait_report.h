// What --waits and --steal report: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "merge/report/top_rows.h"

namespace trapline {

struct WaitRow {
  std::string culprit;
  std::int32_t tid = -1;      // -1: not a thread
  std::int32_t process = -1;  // -1: not known
  std::string vm;             // that it belongs to; empty: to none, or not known
  std::string vm_name;        // the VM's, by its owner; empty: it has none
  std::uint64_t ns = 0;
  std::uint64_t count = 0;   // pieces of waits
  std::uint64_t max_ns = 0;  // the longest piece
};

// The rows' times sum to total_ns, unless rows were left out.
struct WaitRows {
  std::uint64_t total_ns = 0;
  std::vector<WaitRow> rows;      // the largest first
  std::size_t rows_left_out = 0;  // by --top

  // Keeps the `top` largest rows; 0: all.
  void keep(std::size_t top) { rows_left_out = keep_first(rows, top); }
};

struct WaitReport {
  WaitRows preempted, blocked;
  WaitRows halted;  // the sleeps of halts, by what ended them
  // The thread that ran for most of the preempted time, however long the others were of which
  // something is not known; empty: there is none. How long any other can have been at most.
  std::string ran_most{};
  std::uint64_t ran_most_ns = 0, others_at_most_ns = 0;
};

// The time that a vCPU's thread was runnable and did not run, inside and outside of exits.
struct StealRow {
  std::string vm, vm_name;
  std::int32_t vcpu = -1;
  std::int32_t tid = 0;
  std::uint64_t waits = 0;
  WaitRows by;
};

}  // namespace trapline
