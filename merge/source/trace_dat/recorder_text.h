// What a recording of ours says of its recorder, in the option VERSION, which trace-cmd prints:
//
//   trapline 0.1.0, process 230                        what its threads do among them is left out
//   trapline 0.1.0, process 230, threads of 131 alone  only those of process 131 are recorded
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trapline::trace_dat {

struct RecorderText {
  std::string program;                     // "trapline 0.1.0"
  std::int32_t process = 0, selected = 0;  // 0: none

  [[nodiscard]] std::string text() const;
  // Of another recorder's text nothing but the program.
  [[nodiscard]] static RecorderText parse(std::string_view text);
};

}  // namespace trapline::trace_dat
