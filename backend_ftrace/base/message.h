#pragma once

#include <string_view>

namespace trapline {

// Writes "PROGRAM: MESSAGE", made printable, to standard error. Does nothing if standard error is
// closed or full, where fmt::print would throw.
void say(std::string_view program, std::string_view message);

}  // namespace trapline
