// A session is its owner's: it holds kernel addresses and the guest's own texts.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace trapline::record {

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};
// Who called sudo (SUDO_UID, SUDO_GID), where this process is root; nothing otherwise: then the
// session is this process's own.
[[nodiscard]] std::optional<Owner> invoking_user();

// Gives the folder, and what is in it, to the owner. Links are not followed; what is of neither
// root nor the owner (the folder that --user's plugin writes into) stays as it is. Best effort.
void give_session(const std::string& folder, const Owner& owner);

// Takes the files of the folder away from everybody but their owners: what the command wrote has
// the command's own permissions. Best effort.
void close_to_others(const std::string& folder);

}  // namespace trapline::record
