// Checks a QEMU: its version, its trace backends, its plugins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/record/doctor.h"
#include "merge/record/qemu_command.h"

namespace trapline::record {

struct QemuProgram {
  std::string path;
  QemuFacts facts;
  bool has_plugins = false;
  int plugin_api = 0;  // QEMU's number; 0: older than what the plugin uses, or not found
};
// Without a program, the finding says what cannot be recorded.
[[nodiscard]] std::vector<Finding> check_qemu(const std::optional<QemuProgram>& qemu);
// Runs the program to find its facts. `wanted` is a program; empty: the first QEMU in PATH.
[[nodiscard]] std::optional<QemuProgram> find_qemu(const Host& host, const std::string& wanted);

}  // namespace trapline::record
