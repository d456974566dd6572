#include "backend_ftrace/events/pattern_list.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace trapline {
namespace {

void visit_one(char* text, const PatternVisitor& visitor, bool file_allowed) {
  while (*text == ' ' || *text == '\t') ++text;
  std::size_t size = std::strlen(text);
  while (size > 0 && std::strchr(" \t\r\n", text[size - 1]) != nullptr) text[--size] = '\0';
  if (size == 0 || *text == '#') return;
  if (file_allowed && std::strncmp(text, "file=", 5) == 0) {
    return visit_pattern_file(text + 5, visitor);
  }
  const bool on = *text != '-';
  visitor.pattern(on ? text : text + 1, on, visitor.context);
}

}  // namespace

void visit_pattern_file(const char* path, const PatternVisitor& visitor) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) {
    return visitor.failure("cannot read the events file", path, std::strerror(errno),
                           visitor.context);
  }
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strchr(line, '\n') == nullptr && !std::feof(file)) {
      visitor.failure("a line is too long in the events file", path, "", visitor.context);
      break;
    }
    visit_one(line, visitor, false);
  }
  std::fclose(file);
}

void visit_pattern_list(const char* list, const PatternVisitor& visitor) {
  char one[1024];
  while (*list != '\0') {
    const std::size_t size = std::strcspn(list, ",\n");
    if (size >= sizeof one) {
      visitor.failure("a pattern is too long:", "", "", visitor.context);
    } else {
      std::memcpy(one, list, size);
      one[size] = '\0';
      visit_one(one, visitor, true);
    }
    list += size;
    if (*list != '\0') ++list;
  }
}

}  // namespace trapline
