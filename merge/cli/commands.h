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

void add_record(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_snapshot(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_stalls(CLI::App& app, int& status);
void add_advise(CLI::App& app, int& status);
void add_top(CLI::App& app, int& status);
void add_diff(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_print(CLI::App& app, int& status);
void add_events(CLI::App& app, int& status);
void add_symbols(CLI::App& app, int& status);
void add_sync(CLI::App& app, int& status);

}  // namespace trapline::cli
