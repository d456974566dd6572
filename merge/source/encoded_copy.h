// What is sent is often encoded: gzip, zstd, UTF-16, the quoted-printable and base64 of mails,
// HTML, the colours of grep. Such a file is decoded to a temporary one, once, and read from there;
// of a mail only what its encoding changed.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// The decoded bytes; not valid where the file is not encoded. `path` is for messages. Errors: a
// stream that ends early, is damaged or grows more than a thousand times; a text of more than
// 64 MiB; no room.
[[nodiscard]] Result<UniqueFd> decoded_copy(const std::string& path, int file);

}  // namespace trapline
