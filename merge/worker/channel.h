// The worker's end of its socket (backend_ftrace/base/worker_message.h). Any failure ends the
// worker: the caller is gone, or sends what no caller of ours would send.
#pragma once

#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {

struct Request {
  MessageKind kind{};
  std::vector<std::byte> payload;
  UniqueFd file;  // set for kFile
};

[[nodiscard]] Request next_request();
void answer(MessageKind kind, std::span<const std::byte> payload);
void refuse(ErrorKind kind, std::string_view reason);

// Sends the rows so far as a piece of the answer, if they are large enough. Call it between rows.
inline void answer_piece(MessageKind kind, MessageWriter& rows) {
  if (rows.size() < kMessagePiece) return;
  answer(kind, rows.bytes());
  rows.clear();
}
inline void answer_end(MessageKind kind, MessageWriter& rows) {
  if (rows.size() != 0) answer(kind, rows.bytes());
  answer(MessageKind::kEnd, {});
}

// The worker's tasks. Each answers one request and keeps what it has read for later requests.
void print_events(Request&& request);
void read_symbols(Request&& request);

}  // namespace trapline::worker
