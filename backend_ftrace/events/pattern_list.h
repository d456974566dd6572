// A list of patterns as in TRAPLINE_EVENTS, and an events file: read, and handed on pattern by
// pattern.
#pragma once

namespace trapline {

struct PatternVisitor {
  // `text` is without its '-'; `on` says whether it had one.
  void (*pattern)(const char* text, bool on, void* context);
  // A file that cannot be read, or a pattern that is too long; the rest of the list is still read.
  void (*failure)(const char* what, const char* name, const char* hint, void* context);
  void* context;
};

// Patterns separated by commas or line ends; file=PATH stands for the patterns of that file.
void visit_pattern_list(const char* list, const PatternVisitor& visitor);
// One pattern per line, # comments.
void visit_pattern_file(const char* path, const PatternVisitor& visitor);

}  // namespace trapline
