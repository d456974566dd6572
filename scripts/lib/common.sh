# shellcheck shell=bash
# Sourced by the scripts: messages, the cache, locks. Sets nothing but functions and TRAPLINE_ROOT.

# shellcheck disable=SC2034 # used by those who source this
TRAPLINE_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

# stdout carries results only, so everything a person reads goes to stderr.
note() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { printf '%s: error: %s\n' "${0##*/}" "$*" >&2; exit 1; }
usage_error() { printf '%s: %s (see %s --help)\n' "${0##*/}" "$*" "$0" >&2; exit 2; }

need_command() {  # need_command COMMAND PACKAGE
  command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ||
    die "$1 is missing: apt-get install $2"
}

# Where downloads and what is unpacked from them live: outside the source tree, safe to delete.
cache_dir() {
  local dir=${TRAPLINE_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or TRAPLINE_CACHE}/.cache}/trapline}
  mkdir -p -- "$dir" || die "cannot create the cache $dir: set TRAPLINE_CACHE to a writable folder"
  (cd -- "$dir" && pwd)
}

# Runs a command while holding an exclusive lock, so that two runs do not do the same work twice.
with_lock() {  # with_lock LOCK-FILE COMMAND...
  local file=$1 fd
  shift
  exec {fd}>"$file"
  if ! flock --nonblock "$fd"; then
    note "waiting for another run (lock $file)"
    flock "$fd"
  fi
  # The command must not inherit the lock: a process that stays would keep it. It is called
  # plainly, since bash ignores `set -e` in all that is called from a condition or before `||`.
  "$@" {fd}>&-
  exec {fd}>&-
}

# Says how much disk is needed and free, and ends where that is not enough.
need_disk() {  # need_disk FOLDER GIGABYTES
  local free
  free=$(($(df --output=avail -k -- "$1" | tail -n 1) / 1000000))
  note "needs $2 GB in $1, $free GB are free"
  [ "$free" -ge "$2" ] || die "there is too little room in $1: $2 GB are needed, $free GB are free"
}

# A build folder that another version of CMake, the compiler or our presets made is configured anew: what it remembers
# would be wrong.
configure_preset() {  # configure_preset PRESET [CMAKE-ARGUMENT...]
  local folder=$TRAPLINE_ROOT/build/$1 made
  made="$(cmake --version | head -n 1); $(c++ --version | head -n 1); $(cksum <"$TRAPLINE_ROOT/CMakePresets.json")"
  if [ -e "$folder/CMakeCache.txt" ] && [ "$(cat -- "$folder/made-by" 2>/dev/null)" != "$made" ]; then
    note "another version made build/$1: it is configured anew"
    rm -rf -- "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  cmake --preset "$@" || return
  printf '%s\n' "$made" >"$folder/made-by"
}
