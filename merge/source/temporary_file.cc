#include "merge/source/temporary_file.h"

#include <fcntl.h>

#include <cstdlib>

namespace trapline {

const char* temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

UniqueFd make_temporary_file() {
  return UniqueFd(::open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

}  // namespace trapline
