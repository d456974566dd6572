// Runs a QEMU that scripts/fetch made, with the plugin loaded, and looks at what it left.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trapline::test {

struct Output {
  int status = -1;  // as from wait(): -1 when it could not be started
  std::string out;
  std::string err;
  [[nodiscard]] int exit_code() const;
};

// Runs a command, its standard input empty; kills it after `seconds`.
[[nodiscard]] Output run(const std::vector<std::string>& command, unsigned seconds = 200);

// "10" or "11": the folder with bin/qemu-system-*, "" when it cannot be had.
[[nodiscard]] std::string qemu_folder(const std::string& version);
[[nodiscard]] std::string fetched(const std::string& name);

// The command for one of the plugin's guests: arch x86_64, aarch64 or riscv64.
[[nodiscard]] std::vector<std::string> guest_command(const std::string& version,
                                                     const std::string& arch,
                                                     const std::string& variant,
                                                     const std::string& plugin_options);
[[nodiscard]] std::string guest_path(const std::string& arch, const std::string& variant);
[[nodiscard]] std::string plugin_path();

// `uftrace report`: calls by function.
[[nodiscard]] std::map<std::string, std::uint64_t> reported_calls(const std::string& directory);

// Every task's records in order of time and every exit under its entry; the faults found.
[[nodiscard]] std::vector<std::string> imbalances(const std::string& directory,
                                                  bool may_be_cut_off = false);

}  // namespace trapline::test
