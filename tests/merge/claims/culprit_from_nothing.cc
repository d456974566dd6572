// Must not compile: a culprit that is not known is made a known one.
#include "merge/analyze/culprit.h"

void blame(trapline::WaitShare& share) { share.culprit->kind = trapline::CulpritKind::kThread; }
