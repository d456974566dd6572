// A target that reads a recording which is lines of text, through the pipeline.
#pragma once

#include <cstdint>
#include <utility>

#include "merge/session/open.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/declared_events.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/open_by_path.h"

namespace trapline::fuzz {

// `open`: of a path, the source or an Error.
template <typename Open>
void read_text_recording(const std::uint8_t* data, std::size_t size, Open open) {
  static const MemoryFile file;
  file.fill(text_of(data, size));
  bounded(size, [&open] {
    (void)kind_of_source(file.path());
    auto source = open(file.path());
    if (source) (void)read_all(std::move(*source), Times::kInOrder, declared_events());
  });
}

}  // namespace trapline::fuzz
