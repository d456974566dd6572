// Parses a list of patterns in the form of TRAPLINE_EVENTS, or an events file, and passes on the
// patterns one by one.
#pragma once

namespace trapline {

struct PatternVisitor {
  // Gets a pattern; `text` is without the leading '-', and `on` is false if it had one.
  void (*pattern)(const char* text, bool on, void* context);
  // Gets a file that cannot be read or a pattern that is too long. The rest of the list is still
  // parsed.
  void (*failure)(const char* what, const char* name, const char* hint, void* context);
  void* context;
};

// Parses patterns separated by commas or line ends; file=PATH stands for the patterns of that file.
void visit_pattern_list(const char* list, const PatternVisitor& visitor);
// Parses a file with one pattern per line; # begins a comment.
void visit_pattern_file(const char* path, const PatternVisitor& visitor);

}  // namespace trapline
