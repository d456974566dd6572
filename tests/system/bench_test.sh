#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# scripts/bench in a tree of its own, whose benchmarks print planted figures: $work/tree/planted, a line each.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"

tree() {
  mkdir -p "$work/tree/scripts/lib" "$work/tree/tests/bench/merge" "$work/tree/tests/bench/export" "$work/bin"
  cp "$scripts/bench" "$work/tree/scripts/"
  cp "$scripts/lib/common.sh" "$work/tree/scripts/lib/"
  printf '#!/bin/sh\n' >"$work/bin/cmake"
  printf '#!/bin/sh\nsed "s/  */\\t/g; s/_/ /g" planted\n' >"$work/tree/tests/bench/merge/instructions.py"
  printf '#!/bin/sh\necho it broke; exit 1\n' >"$work/tree/tests/bench/export/bench_export.py"
  chmod +x "$work/bin/cmake" "$work/tree/tests/bench/"*/*.py
  printf 'build\nplanted\n' >"$work/tree/.gitignore"
  export PATH=$work/bin:$PATH TRAPLINE_CACHE=$work/cache GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t \
    GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t GIT_CONFIG_GLOBAL=/dev/null
  cd "$work/tree"
  git init -q .
  git add .
  git commit -qm one
}

measured() {  # measured OPTION... <FIGURES
  cat >planted
  run scripts/bench "$@" instructions
}

a_slip_of_four_percent_is_named_one_of_two_is_not() {
  tree
  git tag v0.1.0
  measured <<<'figure reading 500 instructions_an_event 1 report
figure page 1000 instructions_an_event 2.0 report
figure export 3.0 s 3.00 report
figure wall 1.0 s - -
figure gone 7 s 0.7 report'
  expect_equal "the status of the first run" 0 "$status"
  git commit -q --allow-empty -m two
  measured <<<'figure reading 520 instructions_an_event 1 report
figure page 1020 instructions_an_event 2.5 report
figure export 2.0 s 3.15 report
figure wall 9.0 s - -'
  expect_equal "the status of the second run" 1 "$status"
  expect_equal "slips" "missing  instructions: gone over report
slipped  instructions: export over report, 3.15, was 3.00: +5.0 %
slipped  instructions: reading over report, 520, was 500: +4.0 %" "$(grep -E '^(missing|slipped|nothing)' "$work/stdout" | sed 's/: \([0-9]\)/, \1/')"
  expect_equal "lines of the history" 9 "$(wc -l <"$work/cache/bench-history")"
  # Measured again, the newest lines count.
  measured <<<'figure reading 514 instructions_an_event 1 report
figure page 1020 instructions_an_event 2.5 report
figure export 2.0 s 3.05 report
figure gone 7 s 0.7 report'
  expect_equal "the status of the third run" 0 "$status"
  expect_contains "$work/stdout" "nothing slipped by more than 3 % since v0.1.0"
}

what_cannot_be_compared_is_said() {
  tree
  measured <<<'figure reading 500 instructions 1 report'
  expect_equal "the status without a release" 0 "$status"
  expect_contains "$work/stderr" "there is no release to compare with"
  first=$(git rev-parse HEAD)
  git commit -q --allow-empty -m two
  run scripts/bench --slips --against "$first" instructions
  expect_equal "the status of a commit without figures" 1 "$status"
  expect_contains "$work/stdout" "missing  instructions: reading over report"
  sed -i 's/^\([^\t]*\)\t[^\t]*/\1\tanother machine/' "$work/cache/bench-history"
  measured --against "$first" <<<'figure reading 600 instructions 1 report'
  expect_equal "the status of another machine's figures" 1 "$status"
  expect_contains "$work/stderr" "no figures of $first from this machine"
  run scripts/bench --against nothing instructions
  expect_contains "$work/stderr" "there is no commit nothing"
  run scripts/bench reporting
  expect_equal "the status of an unknown part" 2 "$status"
}

a_part_that_fails_is_named_and_quick_leaves_the_history() {
  tree
  run scripts/bench --quick export
  expect_equal "the status" 1 "$status"
  expect_contains "$work/stdout" "export: FAILED"
  expect_contains build/bench/export.log "it broke"
  measured --quick <<<'figure reading 500 instructions 1 report'
  expect_equal "the status of a part that works" 0 "$status"
  expect_contains "$work/stdout" "1 x report"
  [ ! -e "$work/cache/bench-history" ] || fail "--quick wrote into the history"
}

on_a_busy_machine_a_part_has_no_figures() {
  tree
  git tag v0.1.0
  printf '#!/bin/sh\nprintf "figure\\twall\\t1\\ts\\t1\\tloop\\n"\n' >tests/bench/merge/walls.py
  chmod +x tests/bench/merge/walls.py
  run scripts/bench walls
  expect_equal "the status of a quiet machine" 0 "$status"
  git commit -q --allow-empty -m two
  printf '#!/bin/sh\necho "the machine is too busy to tell"; exit 3\n' >tests/bench/merge/walls.py
  run scripts/bench walls
  expect_equal "the status of a busy one" 3 "$status"
  expect_contains "$work/stdout" "walls: too busy to tell"
  expect_equal "lines of the history" 1 "$(wc -l <"$work/cache/bench-history")"
}

"$@"
