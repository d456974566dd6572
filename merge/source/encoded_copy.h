// Decodes files that were encoded for sending: gzip, zstd, UTF-16, the quoted-printable and base64
// of mails, HTML, the colours of grep. An encoded file is decoded once, to a temporary file, and
// read from there. In a mail, only the encoded parts are changed.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Returns a temporary file with the decoded bytes; an invalid descriptor if `file` is not encoded.
// `path` is for messages. Errors: a compressed stream ends early, is damaged or expands more than a
// thousandfold; an encoded text has more than 64 MiB; there is no room for the temporary file.
[[nodiscard]] Result<UniqueFd> decoded_copy(const std::string& path, int file);

}  // namespace trapline
