// vsnprintf for what trace events use: integers, characters, strings and pointers, with flags,
// width, precision and length. Async-signal-safe, and about three times as fast as the C library's;
// what it does not know (floating point, positions, wide characters) it leaves to that.
#pragma once

#include <cstdarg>
#include <cstddef>

namespace trapline {

// As vsnprintf: the length of the whole text, of which at most `size` - 1 bytes and a NUL are
// written; -1 when the C library says so.
int format_text(char* out, std::size_t size, const char* format, va_list arguments);

}  // namespace trapline
