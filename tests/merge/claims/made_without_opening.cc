// Must not compile: only Pass::open() makes a Pass, and only Pass::run() a PassEnd.
#include "merge/pass/pass.h"

trapline::Pass made() { return trapline::Pass(); }
