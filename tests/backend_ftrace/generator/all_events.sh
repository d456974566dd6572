#!/usr/bin/env bash
# All events of an installed trace-events-all through the generator: every backend at once, compiled
# as C11 and as C++20 with warnings as errors, linked, and run against printf.
#
#   all_events.sh TRACE_EVENTS_ALL TRACETOOL MAKE_DRIVER LIBRARY INCLUDE WORK_DIR BUILD_DIR
#
# The file is cut into parts, each a group of its own, for compilers to run side by side. Nothing is
# optimised: what is tested is that the code is accepted without a warning, links and says the right
# thing. LTTng's macros take most of the time: GCC only checks their C++ side, clang, which takes half as
# long, compiles them as C, and only every fourth part has them unless TRAPLINE_LONG is set.
set -euo pipefail
all=$1 tracetool=$2 make_driver=$3 library=$4 include=$5 work=$6 build=$7
# shellcheck source-path=SCRIPTDIR source=../../support/proven.sh
source "$(dirname -- "$0")/../../support/proven.sh"
mapfile -t headers < <(find "$include" -type f | LC_ALL=C sort)
if proven_before "$build" all-events "$all" "$tracetool" "$make_driver" "$library" "${headers[@]}"; then exit 0; fi
parts=12
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wformat=2 -Werror"
rm -rf "$work"
mkdir -p "$work"
cd "$work"

total=$(grep -cvE '^[[:space:]]*(#|$)' "$all")
lines=$(wc -l < "$all")
split -l $((lines / parts + 1)) -d --additional-suffix=.events "$all" part

one() {
  local part=$1 flags="-O0 -I$include -I." backends=log,simple,ftrace,syslog,dtrace ust=()
  [ -z "${TRAPLINE_LONG:-}" ] && [ $((10#${part#part} % 4)) -ne 0 ] || ust=("trace-ust-$part.o")
  "$tracetool" --group "$part" --backends "$backends${ust:+,ust}" -o . "$part.events"
  # shellcheck disable=SC2086
  cc -std=c11 $warnings $flags -c "trace-$part.c" -o "trace-$part.o"
  # shellcheck disable=SC2086
  c++ -x c++ -std=c++20 $warnings -Wold-style-cast $flags -c "trace-$part.c" -o "trace-$part.cxx.o"
  if [ ${#ust[@]} -gt 0 ]; then
    # shellcheck disable=SC2086
    "$(command -v clang || echo cc)" -std=c11 $warnings $flags -c "trace-ust-$part.c" -o "${ust[0]}"
    # shellcheck disable=SC2086
    c++ -x c++ -std=c++20 $warnings -Wold-style-cast $flags -fsyntax-only "trace-ust-$part.c"
  fi
  "$make_driver" "$part" 1 "$part.events" > "driver-$part.c"
  # shellcheck disable=SC2086
  cc -std=c11 $flags -c "driver-$part.c" -o "driver-$part.o"
  for suffix in o cxx.o; do
    cc "driver-$part.o" "trace-$part.$suffix" "${ust[@]}" "$library" \
      -llttng-ust -ldl -pthread -lstdc++ -o "run-$part.$suffix"
    TRAPLINE_FTRACE_FD=9 TRAPLINE_LOG="$part-log.$suffix" "./run-$part.$suffix" \
      "$part-expected.$suffix" "$part-simple.$suffix" "$part-syslog.$suffix" 9> /dev/null > /dev/null
    cmp "$part-log.$suffix" "$part-expected.$suffix"
    cmp "$part-syslog.$suffix" "$part-expected.$suffix"
  done
}
export -f one
export tracetool make_driver library include warnings

printf '%s\n' part*.events | sed 's/\.events$//' | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'one {}'

# Each event printed one line, but for those that are compiled out.
printed=$(cat part??-expected.o | wc -l)
disabled=$(grep -cE '^[[:space:]]*disable ' "$all" || true)
if [ "$printed" -ne "$((total - disabled))" ]; then
  echo "$total events, $disabled of them disabled, but $printed were printed" >&2
  exit 1
fi
echo "$total events, $disabled disabled, $printed printed by every backend" | tee "$proof"
