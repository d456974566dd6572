#pragma once

#include <libelf.h>

namespace trapline::worker {

// Answers with the functions for which the file's DWARF has a source line (MessageKind::kLines).
void send_source_lines(Elf* elf);

}  // namespace trapline::worker
