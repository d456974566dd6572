#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The examples of --help, and the texts of `trapline help`.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline

examples_that_read_are_run() {
  python3 "$TRAPLINE_SOURCE_DIR/tests/system/help_examples.py" reading "$TRAPLINE_SOURCE_DIR" "$trapline"
}

need_to_record() {
  [ "$(id -u)" = 0 ] || skip "needs root, to record"
  [ -w /sys/kernel/tracing/trace_marker ] || skip "needs tracefs at /sys/kernel/tracing"
  [ -d /sys/kernel/tracing/events/kvm ] || skip "needs a kernel with events of KVM"
}

# What README, the tutorial and the cookbook tell to type beside the examples that doc_examples_test compares.
commands_of_the_documents_are_run() {
  need_to_record
  python3 "$TRAPLINE_SOURCE_DIR/tests/system/help_examples.py" documents "$TRAPLINE_SOURCE_DIR" "$trapline"
}

examples_that_record_are_run() {
  need_to_record
  python3 "$TRAPLINE_SOURCE_DIR/tests/system/help_examples.py" recording "$TRAPLINE_SOURCE_DIR" "$trapline"
}

every_topic_is_its_file_and_fits_a_screen() {
  local file name
  for file in "$TRAPLINE_SOURCE_DIR"/docs/topics/*.md; do
    name=$(basename "$file" .md)
    run "$trapline" help "$name"
    expect_equal "status of help $name" 0 "$status"
    # The file is the text: without the mark of its title and without back-quotes.
    # A comment in it stands for the kinds of exits.
    if grep -q '^<!-- kinds' "$file"; then
      sed -E -e '/^  [a-z]/d' -e '/^ {20}/d' "$work/stdout" >"$work/without"
      expect_contains "$work/stdout" "page-fault        a page is not mapped yet"
    else
      cp "$work/stdout" "$work/without"
    fi
    sed -e '1s/^# //' -e 's/`//g' -e '/^<!-- kinds/d' "$file" | diff - "$work/without" || fail "help $name is another text than $file"
    [ "$(wc -l <"$work/stdout")" -le 50 ] || fail "help $name has more than 50 lines"
    [ "$(wc -L <"$work/stdout")" -le 80 ] || fail "help $name is wider than 80 columns"
    "$trapline" help | grep -q "^  $name " || fail "trapline help does not list $name"
    # Documents that it names exist.
    grep -o 'docs/[a-z/-]*\.md' "$file" | while read -r document; do
      [ -e "$TRAPLINE_SOURCE_DIR/$document" ] || fail "$file names $document, which does not exist"
    done
  done
  run "$trapline" help exit-modle
  expect_equal "status of an unknown topic" 2 "$status"
  expect_contains "$work/stderr" "did you mean exit-model?"
  for words in -v -V --version version; do
    run "$trapline" $words
    expect_equal "status of $words" 0 "$status"
    expect_contains "$work/stdout" "0."
  done
  run "$trapline" doctor --json
  expect_contains "$work/stdout" '"findings"'
  run "$trapline" sync --json
  expect_equal "status of sync --json" 2 "$status"
  expect_contains "$work/stderr" "there is no option --json"
  run "$trapline" help report
  "$trapline" report --help | diff - "$work/stdout" || fail "help report is not report --help"
}

values_that_are_refused_are_told_with_what_there_is() {
  run "$trapline" top --batch --by span "$TRAPLINE_SOURCE_DIR/tests/data/box/demo-userspace.dat"
  expect_equal "status of top --by span" 2 "$status"
  expect_contains "$work/stderr" "unknown 'span'; there are reason,"
  if grep -q alone "$work/stderr"; then fail "top offers what it does not take: $(cat "$work/stderr")"; fi
  run "$trapline" report --by spam "$TRAPLINE_SOURCE_DIR/tests/data/box/demo-userspace.dat"
  expect_contains "$work/stderr" ", and span or guest-span alone"
  run "$trapline" report "$TRAPLINE_SOURCE_DIR/tests/data/box/demo-userspace.dat" --phases ''
  expect_equal "status of an empty recording" 2 "$status"
  expect_contains "$work/stderr" "the value is empty"
  run "$TRAPLINE_BINARY_DIR/merge/trapline-sync" --marker /dev/null --interval 10
  expect_equal "status of trapline-sync --interval 10" 2 "$status"
  expect_contains "$work/stderr" "--interval: '10' is not a time; use 10ms or 2s"
  run "$TRAPLINE_BINARY_DIR/merge/trapline-sync" --marker /dev/null --port 65536
  expect_equal "status of trapline-sync --port 65536" 2 "$status"
  run "$TRAPLINE_BINARY_DIR/merge/trapline-sync" --marker /dev/null --port 0 --interval 010ms --rounds 0x1
  expect_equal "status of trapline-sync with numbers" 0 "$status"
}

"$1"
