// Must not compile: a recording that was read has nothing left to read.
#include "merge/pass/pass.h"

bool read(trapline::PassEnd end) { return std::move(end).run({}, {}).has_value(); }
