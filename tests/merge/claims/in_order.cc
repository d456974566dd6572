// What the other files here get wrong, in the right order: this one compiles.
#include "merge/pass/pass.h"

trapline::Naming names_of(trapline::Pass pass) {
  const auto end = std::move(pass).run({}, {});
  return end->naming();
}
