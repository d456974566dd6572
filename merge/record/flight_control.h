// The socket through which `trapline snapshot` asks a flight recorder: FOLDER/control.
//
//   client                         recorder
//     reason (may be empty)  ───>
//                            <───  "+" and the snapshot's path, or "-" and why there is none
//
// There is one message each way (SOCK_SEQPACKET), of at most kMostMessage bytes. Whoever can enter
// the folder can make a request.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "backend_ftrace/base/folder.h"

namespace trapline::record {

inline constexpr std::size_t kMostMessage = 4096;

class FlightControl {
 public:
  // Makes the folder's socket, and replaces that of a dead recorder. The caller holds the folder's
  // lock.
  [[nodiscard]] static Result<FlightControl> open(const Folder& folder);
  FlightControl(FlightControl&&) noexcept = default;
  FlightControl& operator=(FlightControl&&) = delete;
  ~FlightControl();

  [[nodiscard]] int fd() const { return socket_.get(); }  // readable when a client makes a request
  // Takes one request and sends its answer. Drops a client that sends nothing for a second.
  void serve(const std::function<Result<std::string>(const std::string& why)>& snapshot) const;

 private:
  FlightControl(Folder folder, UniqueFd socket)
      : folder_(std::move(folder)), socket_(std::move(socket)) {}
  Folder folder_;
  UniqueFd socket_;
};

// Requests a snapshot from the recorder of this folder. Returns the path of its session.
[[nodiscard]] Result<std::string> ask_for_snapshot(const std::string& folder,
                                                   const std::string& why);

}  // namespace trapline::record
