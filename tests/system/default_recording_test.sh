#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# Commands that read one recording, where none is named; and parts of a recording in which no event lies.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
recordings=$TRAPLINE_SOURCE_DIR/tests/merge
unset TRAPLINE_ERRORS
mkdir "$work/here"
cd "$work/here"

commands=(report timeline explain stalls advise info 'export --format jsonl -o -')

each_command_reads_what_record_writes() {
  cp -rL "$recordings/two-vms.trapline" run.trapline
  local command
  for command in "${commands[@]}"; do
    # shellcheck disable=SC2086 # words
    run "$trapline" $command run.trapline </dev/null
    expect_equal "exit status of $command" 0 "$status"
    mv "$work/stdout" "$work/named"
    # shellcheck disable=SC2086
    run "$trapline" $command </dev/null
    expect_equal "exit status of $command without a recording" 0 "$status"
    expect_equal "first line on stderr" "trapline: no recording was given; reading run.trapline" \
      "$(head -n 1 "$work/stderr")"
    cmp "$work/named" "$work/stdout" || fail "$command prints something else"
  done
  run "$trapline" export --list </dev/null
  [ ! -s "$work/stderr" ] || fail "export --list reads a recording"
}

what_comes_on_stdin_is_read_where_it_is_asked_for() {
  cp -rL "$recordings/two-vms.trapline" run.trapline
  local file=$TRAPLINE_SOURCE_DIR/tests/data/box/demo-local.dat command
  for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    run "$trapline" $command <"$file"
    expect_equal "exit status of $command < FILE" 2 "$status"
    [ ! -s "$work/stdout" ] || fail "$command prints what nobody asked for"
    expect_contains "$work/stderr" "to read stdin: trapline ${command%% *} -"
    expect_contains "$work/stderr" "to read run.trapline: trapline ${command%% *} run.trapline"
  done
  run "$trapline" report --by vm < <(cat "$file")
  expect_equal "exit status with a pipe" 2 "$status"
  # The command that it names.
  eval "run \"\$trapline\" $(sed -n 's/.*to read stdin: trapline \([^;]*\);.*/\1/p' "$work/stderr") <\"\$file\""
  expect_equal "exit status of the command that it names" 0 "$status"
}

# The command that is named, for eval.
named_command() { sed -n 's/.* does not exist here; try: trapline //p' "$work/stderr"; }

what_lies_in_the_folder_is_named_as_a_command() {
  run "$trapline" report --by vm </dev/null
  expect_equal "exit status in an empty folder" 2 "$status"
  expect_equal "the command in an empty folder" record "$(named_command)"
  local there
  mkdir flight.trapline
  run "$trapline" report </dev/null
  expect_equal "the command beside a flight recorder without a snapshot" snapshot "$(named_command)"
  cp -rL "$recordings/warned.trapline" flight.trapline/20260101T000000Z
  cp -rL "$recordings/two-vms.trapline" flight.trapline/20260102T000000Z
  for there in flight.trapline/20260102T000000Z perf.data trace.dat; do
    case $there in
      perf.data) cp "$TRAPLINE_SOURCE_DIR/tests/data/perf/kvm-stat.perf.data" perf.data ;;
      trace.dat) cp -L "$recordings/two-vms.trapline/trace.dat" . ;;
    esac
    run "$trapline" report --by vm,vcpu </dev/null
    expect_equal "exit status with $there" 2 "$status"
    expect_equal "the command" "report $there --by vm,vcpu" "$(named_command)"
    eval "run \"\$trapline\" $(named_command)"
    expect_equal "exit status of the command" 0 "$status"
  done
}

a_part_without_events_ends_with_2_in_every_command() {
  local command recording option
  # The end of the last is known only when it was read.
  for recording in "$recordings/two-vms.trapline" "$TRAPLINE_SOURCE_DIR"/tests/data/{box/demo-local.dat,perf/kvm-stat.perf.data}; do
    for command in "${commands[@]}" "top --batch" "diff $recording"; do
      case $command in
        info) continue ;;
        timeline | explain) option="--around 99999" ;;
        *) option="--from 99999" ;;
      esac
      # shellcheck disable=SC2086
      run "$trapline" $command "$recording" $option </dev/null
      expect_equal "exit status of $command $option" 2 "$status"
      [ ! -s "$work/stdout" ] || fail "$command prints something: $(head -n 3 "$work/stdout")"
    done
  done
}

"$1"
