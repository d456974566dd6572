// The socket through which `trapline snapshot` asks a flight recorder: FOLDER/control.
//
//   client                         recorder
//     reason (may be empty)  ───>
//                            <───  "+" and the snapshot's path, or "-" and why there is none
//
// One message each way (SOCK_SEQPACKET), at most kMostMessage bytes. Who may enter the folder may
// ask.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "backend_ftrace/base/folder.h"

namespace trapline::record {

inline constexpr std::size_t kMostMessage = 4096;

class FlightControl {
 public:
  // Replaces the socket of a dead recorder: the caller holds the folder's lock.
  [[nodiscard]] static Result<FlightControl> open(const Folder& folder);
  FlightControl(FlightControl&&) noexcept = default;
  FlightControl& operator=(FlightControl&&) = delete;
  ~FlightControl();

  [[nodiscard]] int fd() const { return socket_.get(); }  // readable: somebody asks
  // Takes one request and gives its answer. A client that says nothing for a second is sent away.
  void serve(const std::function<Result<std::string>(const std::string& why)>& snapshot) const;

 private:
  FlightControl(Folder folder, UniqueFd socket)
      : folder_(std::move(folder)), socket_(std::move(socket)) {}
  Folder folder_;
  UniqueFd socket_;
};

// Asks the recorder of this folder for a snapshot; the path of its session.
[[nodiscard]] Result<std::string> ask_for_snapshot(const std::string& folder,
                                                   const std::string& why);

}  // namespace trapline::record
