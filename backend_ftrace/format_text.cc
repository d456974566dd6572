#include "backend_ftrace/format_text.h"

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace trapline {
namespace {

struct Spec {
  bool left = false;
  bool zero = false;
  bool alternate = false;
  bool plus = false;
  bool space = false;
  int width = 0;
  int precision = -1;
  int bytes = 4;  // size of an integer argument
  char conversion = 0;
};

// Counts all characters and stores those that fit.
class Sink {
 public:
  Sink(char* out, std::size_t size)
      : at_(out), end_(out + (size > 0 ? size - 1 : 0)), open_(size > 0) {}
  void put(const char* text, std::size_t size) {
    const auto room = static_cast<std::size_t>(end_ - at_);
    const std::size_t kept = size < room ? size : room;
    std::memcpy(at_, text, kept);
    at_ += kept;
    total_ += size;
  }
  void fill(char c, std::size_t count) {
    const auto room = static_cast<std::size_t>(end_ - at_);
    const std::size_t kept = count < room ? count : room;
    std::memset(at_, c, kept);
    at_ += kept;
    total_ += count;
  }
  int finish() {
    if (open_) *at_ = '\0';
    return total_ > INT_MAX ? -1 : static_cast<int>(total_);
  }

 private:
  char* at_;
  char* end_;
  bool open_;
  std::size_t total_ = 0;
};

void put_padded(Sink& sink, const Spec& spec, const char* text, std::size_t size) {
  const std::size_t width = static_cast<std::size_t>(spec.width);
  const std::size_t padding = width > size ? width - size : 0;
  if (!spec.left) sink.fill(' ', padding);
  sink.put(text, size);
  if (spec.left) sink.fill(' ', padding);
}

// Writes the digits of `value` so that they end at `end`. Returns where they begin; writes none for
// 0.
char* digits_of(std::uint64_t value, char conversion, char* end) {
  static constexpr char kPairs[] =
      "0001020304050607080910111213141516171819"
      "2021222324252627282930313233343536373839"
      "4041424344454647484950515253545556575859"
      "6061626364656667686970717273747576777879"
      "8081828384858687888990919293949596979899";
  if (conversion == 'x' || conversion == 'X') {
    const char* digits = conversion == 'x' ? "0123456789abcdef" : "0123456789ABCDEF";
    for (; value != 0; value >>= 4) *--end = digits[value & 15];
  } else if (conversion == 'o') {
    for (; value != 0; value >>= 3) *--end = static_cast<char>('0' + (value & 7));
  } else {
    for (; value >= 100; value /= 100) {
      end -= 2;
      std::memcpy(end, kPairs + 2 * (value % 100), 2);
    }
    if (value >= 10) {
      end -= 2;
      std::memcpy(end, kPairs + 2 * value, 2);
    } else if (value != 0) {
      *--end = static_cast<char>('0' + value);
    }
  }
  return end;
}

void put_integer(Sink& sink, const Spec& spec, std::uint64_t value, bool negative, bool is_signed) {
  char buffer[24];
  char* const end = buffer + sizeof buffer;
  char* begin = digits_of(value, spec.conversion, end);
  if (value == 0 && spec.precision != 0) *--begin = '0';
  const auto size = static_cast<std::size_t>(end - begin);
  char prefix[2];
  std::size_t prefix_size = 0;
  if (negative)
    prefix[prefix_size++] = '-';
  else if (is_signed && spec.plus)
    prefix[prefix_size++] = '+';
  else if (is_signed && spec.space)
    prefix[prefix_size++] = ' ';
  if (spec.alternate && value != 0 && (spec.conversion == 'x' || spec.conversion == 'X')) {
    prefix[prefix_size++] = '0';
    prefix[prefix_size++] = spec.conversion;
  }
  std::size_t zeros = 0;
  if (spec.precision > 0 && static_cast<std::size_t>(spec.precision) > size) {
    zeros = static_cast<std::size_t>(spec.precision) - size;
  }
  if (spec.alternate && spec.conversion == 'o' && zeros == 0 && (size == 0 || *begin != '0')) {
    zeros = 1;
  }
  const std::size_t all = prefix_size + zeros + size;
  const std::size_t width = static_cast<std::size_t>(spec.width);
  std::size_t padding = width > all ? width - all : 0;
  if (spec.zero && !spec.left && spec.precision < 0) {
    zeros += padding;
    padding = 0;
  }
  if (!spec.left && padding != 0) sink.fill(' ', padding);
  if (prefix_size != 0) sink.put(prefix, prefix_size);
  if (zeros != 0) sink.fill('0', zeros);
  sink.put(begin, size);
  if (spec.left && padding != 0) sink.fill(' ', padding);
}

void put_string(Sink& sink, const Spec& spec, const char* text) {
  if (text == nullptr) text = spec.precision >= 0 && spec.precision < 6 ? "" : "(null)";
  const std::size_t size = spec.precision >= 0
                               ? ::strnlen(text, static_cast<std::size_t>(spec.precision))
                               : std::strlen(text);
  put_padded(sink, spec, text, size);
}

constexpr int kMaxField = 1 << 20;  // the C library formats wider fields

// Parses a decimal number. False when it exceeds kMaxField.
bool number(const char*& at, int& value) {
  value = 0;
  for (; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + (*at - '0');
    if (value > kMaxField) return false;
  }
  return true;
}

// Wraps a va_list, which cannot be passed by reference on every machine.
struct Arguments {
  va_list list;
};

bool parse(const char*& at, Spec& spec, Arguments& arguments) {
  for (;; ++at) {
    if (*at == '-')
      spec.left = true;
    else if (*at == '0')
      spec.zero = true;
    else if (*at == '#')
      spec.alternate = true;
    else if (*at == '+')
      spec.plus = true;
    else if (*at == ' ')
      spec.space = true;
    else
      break;
  }
  if (*at == '*') {
    ++at;
    spec.width = va_arg(arguments.list, int);
    if (spec.width < -kMaxField || spec.width > kMaxField) return false;
    if (spec.width < 0) spec.left = true, spec.width = -spec.width;
  } else if (!number(at, spec.width)) {
    return false;
  }
  if (*at == '.') {
    ++at;
    if (*at == '*') {
      ++at;
      spec.precision = va_arg(arguments.list, int);
      if (spec.precision < 0) spec.precision = -1;
      if (spec.precision > kMaxField) return false;
    } else if (!number(at, spec.precision)) {
      return false;
    }
  }
  switch (*at) {
    case 'h':
      spec.bytes = *++at == 'h' ? 1 : 2;
      if (spec.bytes == 1) ++at;
      break;
    case 'l':
      spec.bytes =
          *++at == 'l' ? static_cast<int>(sizeof(long long)) : static_cast<int>(sizeof(long));
      if (*at == 'l') ++at;
      break;
    case 'z':
    case 't':
      spec.bytes = static_cast<int>(sizeof(std::size_t)), ++at;
      break;
    case 'j':
      spec.bytes = static_cast<int>(sizeof(std::intmax_t)), ++at;
      break;
  }
  spec.conversion = *at;
  return spec.conversion != '\0';
}

void put_signed(Sink& sink, const Spec& spec, Arguments& arguments) {
  std::int64_t value = 0;
  if (spec.bytes == 8)
    value = va_arg(arguments.list, std::int64_t);
  else
    value = va_arg(arguments.list, int);
  if (spec.bytes == 1) value = static_cast<signed char>(value);
  if (spec.bytes == 2) value = static_cast<short>(value);
  const auto bits = static_cast<std::uint64_t>(value);
  put_integer(sink, spec, value < 0 ? 0 - bits : bits, value < 0, true);
}

void put_unsigned(Sink& sink, const Spec& spec, Arguments& arguments) {
  std::uint64_t value = 0;
  if (spec.bytes == 8)
    value = va_arg(arguments.list, std::uint64_t);
  else
    value = va_arg(arguments.list, unsigned);
  if (spec.bytes == 1) value = static_cast<unsigned char>(value);
  if (spec.bytes == 2) value = static_cast<unsigned short>(value);
  put_integer(sink, spec, value, false, false);
}

// Formats one conversion. False for a conversion that the C library must format.
bool convert(Sink& sink, Spec& spec, Arguments& arguments) {
  switch (spec.conversion) {
    case 'd':
    case 'i':
      put_signed(sink, spec, arguments);
      return true;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      put_unsigned(sink, spec, arguments);
      return true;
    case 'c': {
      if (spec.bytes != 4) return false;
      const char c = static_cast<char>(va_arg(arguments.list, int));
      put_padded(sink, spec, &c, 1);
      return true;
    }
    case 's':
      if (spec.bytes != 4) return false;
      put_string(sink, spec, va_arg(arguments.list, const char*));
      return true;
    case 'p': {
      if (spec.plus || spec.space || spec.precision >= 0 || spec.bytes != 4) return false;
      const auto* pointer = va_arg(arguments.list, const void*);
      if (pointer == nullptr) {
        put_padded(sink, spec, "(nil)", 5);
        return true;
      }
      spec.alternate = true;
      spec.conversion = 'x';
      put_integer(sink, spec, reinterpret_cast<std::uintptr_t>(pointer), false, false);
      return true;
    }
    case '%':
      sink.put("%", 1);
      return true;
    default:
      return false;
  }
}

}  // namespace

int format_text(char* out, std::size_t size, const char* format, va_list arguments) {
  Arguments own;
  va_copy(own.list, arguments);
  Sink sink(out, size);
  const char* at = format;
  bool known = true;
  while (known) {
    const char* percent = at;
    while (*percent != '\0' && *percent != '%') ++percent;
    if (percent != at) sink.put(at, static_cast<std::size_t>(percent - at));
    if (*percent == '\0') break;
    at = percent + 1;
    Spec spec;
    known = parse(at, spec, own) && convert(sink, spec, own);
    ++at;
  }
  va_end(own.list);
  if (known) return sink.finish();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  return std::vsnprintf(out, size, format, arguments);
#pragma GCC diagnostic pop
}

}  // namespace trapline
