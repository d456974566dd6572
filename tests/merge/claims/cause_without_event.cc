// Must not compile: a thread is named as a culprit, and no event proves it.
#include "merge/analyze/culprit.h"

trapline::WaitShare blame(trapline::ThreadId thread) {
  const trapline::Culprit culprit{.kind = trapline::CulpritKind::kThread, .thread = thread};
  return {trapline::Part::kPreempted, culprit, {}, {}};
}
