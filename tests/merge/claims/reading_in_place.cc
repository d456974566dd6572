// Must not compile: what was read is another object, so nobody keeps the opened one.
#include "merge/pass/pass.h"

bool read(trapline::Pass& pass) { return pass.run({}, {}).has_value(); }
