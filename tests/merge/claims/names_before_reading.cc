// Must not compile: threads have names only when the recordings were read.
#include "merge/pass/pass.h"

trapline::Naming names_of(const trapline::Pass& pass) { return pass.naming(); }
