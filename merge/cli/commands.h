// The subcommands of `trapline`. One subcommand is one file, cli/<name>.cc: its options, one call,
// one print. Each function adds its subcommand to `app`; when the user chose it, its callback runs
// and leaves the exit status (ErrorKind's values, or 0) in `status`. stdout gets only results;
// fail_with() prints an error as every command does, and say() prints everything else on stderr.
#pragma once

#include <CLI/CLI.hpp>

#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline::cli {

// Prints "trapline: MESSAGE" on stderr, made printable. If stderr is closed or full nothing is
// printed and the command goes on: a recording outlives the reader of its messages.
void say(std::string_view message);
// Prints the error. Returns the exit status of its kind.
int fail_with(const Error& error);

// Runs `trapline WORD…` and returns its exit status.
int run_command(int argc, char** argv);

using AddCommand = void(CLI::App& app, int& status);
AddCommand add_record, add_report, add_snapshot, add_explain, add_stalls, add_advise, add_top,
    add_diff, add_bench, add_export, add_timeline, add_doctor, add_info, add_print, add_events,
    add_symbols, add_sync, add_help, add_complete;

}  // namespace trapline::cli
