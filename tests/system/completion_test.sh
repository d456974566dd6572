#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The completions in real shells: bash, zsh, fish.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
files=$TRAPLINE_BINARY_DIR/completions
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
data=$TRAPLINE_SOURCE_DIR/tests/data

in_shell() {  # in_shell NAME
  command -v "$1" >/dev/null || skip "$1 is missing: apt-get install $1"
  python3 "$TRAPLINE_SOURCE_DIR/tests/system/completion.py" "$1" "$files" "$trapline" \
    "$data/svm-linux-2vcpu.dat" "$data/box/two-vms.dat"
}

bash_completes() {
  bash -n "$files/trapline.bash"
  if command -v shellcheck >/dev/null; then shellcheck "$files/trapline.bash"; fi
  in_shell bash
}

zsh_completes() {
  in_shell zsh
}

fish_completes() {
  in_shell fish
}

every_option_of_every_command_is_there() {
  for command in $("$trapline" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    options=$("$trapline" "$command" --help | sed -n 's/^  [-a-z,]*\(--[a-z-]*\).*/\1/p')
    for option in $options; do
      for file in trapline.bash _trapline; do expect_contains "$files/$file" "$option"; done
      grep -q -- "from $command' .*-l ${option#--}\b" "$files/trapline.fish" || fail "fish: $command $option"
    done
  done
}

# The lists that `trapline complete` has of its own are those that the commands take.
every_value_that_is_completed_is_taken() {
  local value
  column() { "$trapline" complete | awk -F '\t' -v command="$1" -v option="$2" '$1 == command && $2 ~ option { print $5 }'; }
  for value in $(column report '^--by$'); do
    "$trapline" report "$data/svm-mono.dat" --by "$value" >/dev/null || fail "report --by $value"
  done
  for value in $(column report '^--sort$'); do
    "$trapline" report "$data/svm-mono.dat" --sort "$value" >/dev/null || fail "report --sort $value"
  done
  local clock=$TRAPLINE_SOURCE_DIR/tests/merge/guest-clock of
  for value in $(column export '^--rows$'); do
    of=("$data/svm-mono.dat")
    [ "$value" != guest-spans ] || of=("$clock/host.dat" "$clock/guest.dat" "$clock/sync.txt" --rate-change 1
      --guest-span sched_switch:next_pid..sched_switch:prev_pid)
    "$trapline" export "${of[@]}" --allow-empty --format csv --rows "$value" -o - >/dev/null || fail "export --rows $value"
  done
  for value in $(column export '^--weight$'); do
    "$trapline" export "$data/svm-mono.dat" --format folded --weight "$value" -o - >/dev/null || fail "export --weight $value"
  done
}

"$1"
