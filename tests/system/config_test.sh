#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The user's defaults: file, environment, options, and what is said of mistakes.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
data=$TRAPLINE_SOURCE_DIR/tests/data
file=$work/trapline/config.toml
unset "${!TRAPLINE_@}" NO_COLOR 2>/dev/null || true
export XDG_CONFIG_HOME=$work
mkdir "$work/trapline"

expect_setting() {  # expect_setting NAME VALUE FROM
  run "$trapline" config
  expect_equal "status of config" 0 "$status"
  grep -Eq "^$1 +$2 +[A-Z_]+ +$3\$" "$work/stdout" || fail "config has no '$1 $2 … $3': $(cat "$work/stdout")"
}

option_then_environment_then_file_then_built_in() {
  expect_setting buffer-size 8M 'built in'
  expect_contains <("$trapline" config) "$file does not exist"
  printf '# mine\nbuffer-size = "1M"\n' >"$file"
  expect_setting buffer-size 1M "$file:2"
  run "$trapline" doctor -v
  expect_contains "$work/stdout" "buffer: 1024 KiB"
  TRAPLINE_BUFFER_SIZE=2M expect_setting buffer-size 2M TRAPLINE_BUFFER_SIZE
  TRAPLINE_BUFFER_SIZE=2M run "$trapline" doctor -v
  expect_contains "$work/stdout" "buffer: 2048 KiB"
  TRAPLINE_BUFFER_SIZE=2M run "$trapline" doctor -v --buffer-size 4M
  expect_contains "$work/stdout" "buffer: 4096 KiB"
  TRAPLINE_CONFIG='' expect_setting buffer-size 8M 'built in'
  printf 'clock = "boot"\n' >"$work/other"
  TRAPLINE_CONFIG=$work/other expect_setting clock boot "$work/other:1"
  # Without XDG_CONFIG_HOME below HOME.
  mkdir "$work/.config"
  mv "$work/trapline" "$work/.config"
  file=$work/.config/trapline/config.toml
  unset XDG_CONFIG_HOME
  HOME=$work expect_setting buffer-size 1M "$file:2"
}

symbols_and_events_are_those_of_recordings_that_bring_none() {
  printf 'symbols = ["%s"]\n' "$data/demo-guest.elf" >"$file"
  run "$trapline" report "$data/svm-mono.dat" --by function
  expect_contains "$work/stdout" "rtc_read "
  # A session's own come first: these have another name.
  mkdir -p "$work/run/symbols"
  cp "$data/svm-mono.dat" "$work/run/trace.dat"
  printf '0000000000100000 T everything\n' >"$work/run/symbols/kallsyms"
  run "$trapline" report "$work/run" --by function
  expect_contains "$work/stdout" "everything "
  if grep -q rtc_read "$work/stdout"; then fail "the session's own symbols were not used"; fi
  printf 'trace-events = "/no/such/file"\n' >"$file"
  run "$trapline" report "$data/svm-mono.dat"
  expect_equal "status" 1 "$status"
  expect_contains "$work/stderr" "/no/such/file"
  run "$trapline" report "$data/svm-mono.dat" --trace-events <(printf 'none(void) "none"\n')
  expect_equal "status with --trace-events" 0 "$status"
}

colours_are_chosen() {
  local escape=$'\033'
  run "$trapline" timeline "$data/svm-mono.dat" --around max
  if grep -q "$escape" "$work/stdout"; then fail "colours in a file"; fi
  TRAPLINE_COLOR=always run "$trapline" timeline "$data/svm-mono.dat" --around max
  grep -q "$escape" "$work/stdout" || fail "no colours with TRAPLINE_COLOR=always"
  printf 'color = "always"\n' >"$file"
  run "$trapline" timeline "$data/svm-mono.dat" --around max
  grep -q "$escape" "$work/stdout" || fail "no colours with color = always"
  NO_COLOR=1 run "$trapline" timeline "$data/svm-mono.dat" --around max
  if grep -q "$escape" "$work/stdout"; then fail "colours with NO_COLOR"; fi
  NO_COLOR=1 TRAPLINE_COLOR=always expect_setting color always TRAPLINE_COLOR
  NO_COLOR=1 run "$trapline" timeline "$data/svm-mono.dat" --around max --color always
  grep -q "$escape" "$work/stdout" || fail "no colours with --color always"
  run "$trapline" timeline "$data/svm-mono.dat" --around max --color never
  if grep -q "$escape" "$work/stdout"; then fail "colours with --color never"; fi
}

mistakes_are_told_with_their_line() {
  local text wanted
  while IFS='|' read -r text wanted; do
    printf '# first line\n%b\n' "$text" >"$file"
    run "$trapline" report "$data/svm-mono.dat"
    expect_equal "status with '$text'" 2 "$status"
    expect_contains "$work/stderr" "$wanted"
    run "$trapline" report --help
    expect_equal "status of --help with '$text'" 0 "$status"
  done <<END
clock = |$file:2: 
colour = "never"|$file:2: there is no setting 'colour'; did you mean color?
clock = 5|$file:2: clock has the wrong type of value; write clock = "mono"
buffer-size = 8192|$file:2: buffer-size has the wrong type of value; write buffer-size = "8M"
buffer-size = "3K"|$file:2: --buffer-size: 3K is out of range; give 64K to 4G
symbols = [1]|$file:2: symbols has the wrong type of value; write symbols = ["FILE", "FILE"]
\n\ncolor = "blue"|$file:4: color: 'blue' is not one of auto, always, never
END
  rm "$file"
  TRAPLINE_COLOR=blue run "$trapline" config
  expect_contains "$work/stderr" "TRAPLINE_COLOR: color: 'blue' is not one of auto, always, never"
  "$trapline" config --example >"$file"
  run "$trapline" config
  expect_equal "status with the example" 0 "$status"
  sed -i 's/^#\([a-z-]* = \)/\1/' "$file"
  run "$trapline" config
  expect_equal "status with the example's settings" 0 "$status"
  expect_contains "$work/stdout" "$file:"
}

"$1"
