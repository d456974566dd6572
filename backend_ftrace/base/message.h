// What a program tells on standard error.
#pragma once

#include <string_view>

namespace trapline {

// "PROGRAM: MESSAGE", made printable. Where stderr is closed or full nothing is told and the
// program goes on: fmt::print would throw.
void say(std::string_view program, std::string_view message);

}  // namespace trapline
