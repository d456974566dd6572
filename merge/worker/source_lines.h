#pragma once

#include <libelf.h>

namespace trapline::worker {

// Answers with the functions that the file's DWARF places in a source (MessageKind::kLines).
void send_source_lines(Elf* elf);

}  // namespace trapline::worker
