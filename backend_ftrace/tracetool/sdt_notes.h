// Reads the SDT probes of an ELF file from the notes that sys/sdt.h leaves in .note.stapsdt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::tracetool {

struct SdtProbe {
  std::string provider;
  std::string name;
  std::string arguments;  // as the assembler wrote them: "-4@%edi 8@%rsi"
  std::uint64_t address = 0;
  std::uint64_t semaphore = 0;  // 0: none
};

// Returns a file's SDT probes. Fails if the file is not ELF with 64-bit addresses.
[[nodiscard]] Result<std::vector<SdtProbe>> read_sdt_probes(const std::string& path);

}  // namespace trapline::tracetool
