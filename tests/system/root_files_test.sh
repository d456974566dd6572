#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2016,SC2054
# Root's files where others can write: nothing that they put in its way leads it anywhere. The attacker is user 65534.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
here=$TRAPLINE_SOURCE_DIR/tests/system
race_seconds=1
attacker=(setpriv --reuid=65534 --regid=65534 --clear-groups)
as_sudo=(env SUDO_UID=65534 SUDO_GID=65534)

[ "$(id -u)" = 0 ] || skip "needs root"
[ -w /sys/kernel/tracing/instances ] || skip "needs tracefs at /sys/kernel/tracing"
chmod 755 "$work"
home=$work/home victim=$work/victim
mkdir "$home" "$victim"
chown 65534:65534 "$home"
for file in $(seq 50); do echo "root's $file" >"$victim/f$file"; done
chmod 600 "$victim"/*
state_of_victims() { stat -c '%n %u %g %a %s %Y %Z' "$victim" "$victim"/*; }
before=$(state_of_victims)
victims_are_untouched() { expect_equal "root's own files" "$before" "$(state_of_victims)"; }

# start SESSION OPTIONS...: a recorder that sudo started, in the attacker's folder; begun once it records.
start() {
  local session=$1
  shift
  cd "$home"
  "${as_sudo[@]}" "$trapline" record -o "$session" "$@" >"$work/stdout" 2>"$work/stderr" &
  recorder=$!
  wait_for "recording" test -e "$session/raw/start.json"
}

a_link_in_the_session_leads_nowhere() {
  start run
  for name in raw/cmdlines.new session.json.new raw/plan.json.new trace.dat; do
    "${attacker[@]}" ln -sf "$victim/f1" "run/$name" # also where the recorder has one just now
  done
  kill -TERM "$recorder"
  wait "$recorder" || true
  victims_are_untouched
  "${attacker[@]}" ln -sfn "$victim" run/raw
  "${as_sudo[@]}" "$trapline" record --finish run >"$work/stdout" 2>"$work/stderr" || true
  "$trapline" record --finish run >"$work/stdout" 2>"$work/stderr" || true
  victims_are_untouched
}

files_swapped_in_the_session_stay_roots() {
  local swapper end=$((SECONDS + race_seconds)) runs=0 python=/usr/bin/python3 # that of others may be root's alone
  [ -x "$python" ] || skip "needs $python"
  cp "$here/swap_race.py" "$work"
  while [ $SECONDS -lt $end ]; do
    rm -rf "$home/run" "$home/run.old" "$home/run.new" "$home/run.swapped"
    start run
    "${attacker[@]}" "$python" "$work/swap_race.py" run "$victim" >"$work/swaps" &
    swapper=$!
    wait_for "the attacker's first swaps" test -e run/bait
    sleep 1 # of a race, with enough swaps
    wait_for "100 swaps" test -e run.swapped
    kill -TERM "$recorder" || true
    wait "$recorder" || true
    "${as_sudo[@]}" timeout 20 "$trapline" record --finish run >"$work/stdout" 2>"$work/stderr" || true
    "${as_sudo[@]}" timeout 20 "$trapline" record -o run --duration 100ms >"$work/stdout" 2>"$work/stderr" || true
    kill "$swapper"
    wait "$swapper" || true
    victims_are_untouched
    runs=$((runs + 1))
  done
  echo "$runs recordings, $(cat "$work/swaps") swaps in the last"
}

files_swapped_for_a_minute_stay_roots() {
  race_seconds=60
  files_swapped_in_the_session_stay_roots
}

a_folder_of_somebody_else_is_refused() {
  cd "$home"
  "${attacker[@]}" mkdir run
  run "$trapline" record -o run --duration 100ms
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "run belongs to user"
  expect_equal "files in it" "" "$(ls -A run)"
  mkdir "$work/roots"
  chmod 755 "$work/roots"
  run "${as_sudo[@]}" "$trapline" record -o "$work/roots" --duration 100ms
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "belongs to root"
  "${attacker[@]}" ln -s "$victim" link
  for sudo in "" 1; do
    run ${sudo:+"${as_sudo[@]}"} "$trapline" record -o link --duration 100ms
    expect_equal "exit status" 2 "$status"
    expect_contains "$work/stderr" "is a link"
    run ${sudo:+"${as_sudo[@]}"} "$trapline" record -o link/run --duration 100ms
    expect_equal "exit status" 1 "$status"
  done
  victims_are_untouched
}

# as_process SCRIPT COMMAND...: the attacker runs SCRIPT, where $$ is the process id that root's COMMAND then has.
as_process() {
  bash -c '"${@:2:4}" bash -c "pid=$$; $1" && shift 5 && exec env SUDO_UID=65534 SUDO_GID=65534 "$@"' - "$1" "${attacker[@]}" \
    "$trapline" "${@:2}" >"$work/stdout" 2>"$work/stderr" || true
}

# The file that root writes and then renames: the attacker guesses its name, and it leads to a file, or to none yet.
a_link_beside_an_output_leads_nowhere() {
  local roots=$work/roots target output=(top --batch --prometheus "$home/prom" "$TRAPLINE_SOURCE_DIR/tests/data/svm-mono.dat")
  mkdir "$roots"
  cd "$home"
  for target in "$victim/f1" "$roots/made"; do
    as_process "ln -s '$target' .trapline.\$pid.new" "${output[@]}"
    expect_contains "$work/stderr" ".new: File exists" # it is the name that root makes
    victims_are_untouched
    expect_equal "files in root's folder" "" "$(ls -A "$roots")"
    [ ! -e prom ] || fail "prom is there"
  done
  # An attacker's own file: its owner keeps no way to what root writes.
  as_process "umask 0; exec 3>.trapline.\$pid.new
    (for _ in {1..3000}; do [ ! -e prom ] || break; sleep 0.02; done; echo attacked >&3; touch attacked) &" "${output[@]}"
  wait_for "the attacker" test -e attacked
  expect_contains prom trapline_events_total
  if [ -L prom ] || grep attacked prom; then fail "prom is the attacker's file"; fi
  "$trapline" top --batch --count 1 --interval 200ms --prometheus "$home/prom" >"$work/stdout" 2>"$work/stderr"
  victims_are_untouched
  expect_contains prom trapline_events_total
}

# Every command that writes where the user names a place, with links in all places that it goes through.
links_at_outputs_lead_nowhere() {
  local recording=$TRAPLINE_SOURCE_DIR/tests/merge/two-vms.trapline roots=$work/roots
  mkdir "$roots"
  cd "$home"
  as_process "ln -s '$victim/f1' page.html" report "$recording" --format html --force -o page.html
  as_process "ln -s '$victim/f2' lanes.html" timeline "$recording" --around max --format html --force -o lanes.html
  as_process "ln -s '$victim/f3' diff.html" diff "$recording" "$recording" --format html --force -o diff.html
  as_process "ln -s '$victim/f4' view.html" report "$recording" --open --force -o view.html
  as_process "ln -s '$victim/f5' doctor" doctor --force -o doctor
  for form in perfetto folded csv; do
    as_process "ln -s '$victim/f6' $form.\$pid.part" export --format "$form" --allow-empty "$recording" -o "$form"
    as_process "ln -sf '$victim/f7' $form" export --format "$form" --allow-empty --force "$recording" -o "$form"
  done
  as_process "ln -s '$roots' uf.\$pid.part; ln -s '$roots' uf.new.\$pid" export --format uftrace "$recording" -o uf
  as_process "mkdir sym; ln -s '$victim/f8' sym/sid-0.map; ln -s '$victim/f9' sym/kallsyms.sym" \
    symbols -o sym --no-lines /proc/kallsyms
  as_process "ln -s '$roots' away" symbols -o away/deep --no-lines /proc/kallsyms
  victims_are_untouched
  expect_equal "files in root's folder" "" "$(ls -A "$roots")"
  # His own links lead him, whom these commands are by then, where he may go, and nowhere else.
  for file in page.html lanes.html view.html; do [ -L "$file" ] || fail "$file was replaced"; done
  as_process "ln -s '$home/aim' own.html" report "$recording" --format html --force -o own.html
  for file in aim doctor uf/info; do
    if [ -L "$file" ] || [ ! -s "$file" ]; then fail "$file was not written"; fi
  done
}

# A guest of the plugin's tests, which calls for a second, and QEMU with the plugin, both outside of the home.
qemu_with_plugin() { # qemu_with_plugin [PLUGIN-OPTIONS]
  local tests=$TRAPLINE_BINARY_DIR/tests/guest/plugin
  qemu=("$(fetched qemu10)/bin/qemu-system-x86_64" -accel tcg -m 64 -display none -nodefaults -no-reboot
    -device "isa-debug-exit,iobase=0x501" -kernel "$tests/x86_64-calls-O2.elf")
  [ $# = 0 ] || qemu+=(-plugin "$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so,$1")
}

the_plugin_goes_nowhere_in_any_sandbox() {
  local roots=$work/roots denied python=/usr/bin/python3 swapper
  mkdir "$roots"
  cd "$home"
  "${attacker[@]}" ln -s "$roots" away
  for place in away away/deep; do
    qemu_with_plugin "out=$home/$place"
    run "${as_sudo[@]}" "${qemu[@]}"
    expect_contains "$work/stderr" "a link is in the way"
  done
  for denied in "" ,elevateprivileges=deny ,elevateprivileges=children,spawn=deny ,obsolete=deny,resourcecontrol=deny \
    ,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny; do
    qemu_with_plugin "out=$home/data"
    for _ in 1 2; do # into a new directory, and in the place of an earlier recording
      run "${as_sudo[@]}" "${qemu[@]}" -sandbox "on$denied"
      expect_contains "$work/stderr" " 0 lost"
      expect_equal "exit status" 1 "$status" # the guest's
    done
    expect_equal "what is there" "away data" "$(echo *)"
    rm -r data
  done
  [ -x "$python" ] || skip "needs $python"
  cp "$here/swap_race.py" "$work"
  "${attacker[@]}" "$python" "$work/swap_race.py" data "$victim" >"$work/swaps" &
  swapper=$!
  for _ in 1 2 3; do run "${as_sudo[@]}" timeout 60 "${qemu[@]}"; done
  kill "$swapper"
  wait "$swapper" || true
  victims_are_untouched
  expect_equal "files in root's folder" "" "$(ls -A "$roots")"
}

# traced TRACE PREFIX...: runs the commands on stdin (bash; `it` is trapline) under one strace, which sees what root does by name.
traced() {
  local trace=$1
  shift
  { printf 'work=%q trapline=%q recording=%q\nqemu=(%s)\n' "$work" "$trapline" \
      "$TRAPLINE_SOURCE_DIR/tests/merge/two-vms.trapline" "$(printf '%q ' "${qemu[@]}")"
    printf '%s\n' 'it() { echo "\$ trapline $*"; "$trapline" "$@" || true; }'
    cat; } >"$work/commands"
  "$@" strace -f --seccomp-bpf -y -s 4096 -o "$trace" \
    -e trace=%file,setfsuid,setresuid,openat,openat2,unlinkat,renameat,renameat2,mkdirat,fchownat,fchmodat,linkat,symlinkat \
    bash "$work/commands" >"$trace.output" 2>&1 || fail "the commands: $(tail -n 20 "$trace.output")"
}

# The whole life of a session under strace: the calls that root made by name, read by audit_names.py. And what each command
# wrote is there.
root_goes_nowhere_by_name() { # root_goes_nowhere_by_name PREFIX...
  local file qemu
  command -v strace >/dev/null || skip "needs strace"
  cd "$home"
  qemu=("$(fetched qemu10)/bin/qemu-system-x86_64" -accel tcg -m 64 -display none -nodefaults -no-reboot
    -machine "pc,hpet=on" -debugcon null -global isa-debugcon.iobase=0x402 -device "isa-debug-exit,iobase=0x501"
    -kernel "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf")
  traced "$work/writes" "$@" <<'END'
for _ in 1 2 3; do it record -o run --duration 100ms --symbols /proc/kallsyms; done
it record --finish run
it record -o run.u --user nobody --duration 300ms -- true
it record --flight 2s -o flight 2>"$work/flight.stderr" &
until grep -q "kill -USR1 [0-9]" "$work/flight.stderr"; do sleep 0.05; done
it snapshot flight
kill -TERM "$(sed -n 's/.*kill -USR1 \([0-9]*\).*/\1/p' "$work/flight.stderr")"
wait
it top --batch --count 1 --interval 200ms --prometheus "$PWD/prom"
it symbols --no-lines -o made/deep /proc/kallsyms
it doctor -o doctor
for _ in 1 2; do it record -o functions --no-kvm --functions -- "${qemu[@]}"; done
END
  python3 "$here/audit_names.py" "$work/writes" "$home" || fail "the commands that record"
  # They also read a recording, as they were told to.
  traced "$work/reads" "$@" <<'END'
it bench -o bench -n 1 --warm-up 0 --a 0.1 --b 0.2 -- sleep {}
for form in perfetto folded csv uftrace; do
  for _ in 1 2; do it export --format "$form" --allow-empty --force run -o "$form"; done
done
it report "$recording" --format html -o page.html
it timeline "$recording" --around max --format html -o lanes.html
it diff "$recording" "$recording" --format html -o diff.html
END
  python3 "$here/audit_names.py" "$work/reads" "$home" --reads || fail "the commands that read"
  local read="perfetto folded csv uftrace/info page.html lanes.html diff.html"
  if [ $# -eq 1 ]; then
    # Root that nobody called has no capabilities left when it reads, and the folder is another user's.
    read=
    expect_contains "$work/reads.output" "root without its capabilities may not write there"
    expect_contains "$work/reads.output" "export --format perfetto --allow-empty --force run -o - > perfetto"
  fi
  # shellcheck disable=SC2086 # names
  for file in run/trace.dat run.old/trace.dat run.u/trace.dat flight/*/session.json prom made/deep doctor \
    functions/uftrace.data/100.dat functions.old bench $read; do
    [ -e "$file" ] || fail "$file was not written: $(cat "$work"/*.output)"
  done
  # The audit sees what a40aedc did.
  printf '%s\n' "7 openat(AT_FDCWD<$home>, \"run/raw/cmdlines.new\", O_WRONLY|O_CREAT|O_TRUNC) = 3" \
    "7 lchown(\"run/session.json\", 65534, 65534) = 0" >"$work/trace"
  if python3 "$here/audit_names.py" "$work/trace" "$home" >"$work/stdout" 2>&1; then
    fail "the audit passes what a40aedc did"
  fi
  expect_contains "$work/stdout" "2 of root's 2"
}
root_of_sudo_goes_nowhere_by_name() { root_goes_nowhere_by_name "${as_sudo[@]}"; }
root_itself_goes_nowhere_by_name() { root_goes_nowhere_by_name env; }

has_events() { "${attacker[@]}" "$trapline" info "$1" >/dev/null 2>&1; }

a_session_belongs_to_the_user_from_its_first_byte() {
  start run --duration 60s
  wait_for "events that can be read" has_events run
  kill -KILL "$recorder"
  wait "$recorder" 2>/dev/null || true
  expect_equal "files of others" "" "$(find run ! -user 65534 -o ! -group 65534 -o -type f ! -perm 0600)"
  expect_equal "folder" 700 "$(stat -c %a run)"
  run "${attacker[@]}" "$trapline" info run
  expect_equal "exit status of info" 0 "$status"
  "${as_sudo[@]}" "$trapline" record --finish run
  expect_equal "files of others" "" "$(find run ! -user 65534 -o ! -group 65534 -o -type f ! -perm 0600)"
  "${attacker[@]}" rm -r run
}

# As kernels before 5.6 and sandboxes have it.
works_without_openat2() {
  command -v strace >/dev/null || skip "needs strace"
  cd "$home"
  for _ in 1 2; do
    run strace -f -o "$work/trace" -e trace=openat2 -e inject=openat2:error=ENOSYS \
      "${as_sudo[@]}" "$trapline" record -o run --duration 300ms
    expect_equal "exit status" 0 "$status"
  done
  grep -q ENOSYS "$work/trace" || fail "openat2 was never asked for"
  expect_equal "files of others" "" "$(find run run.old ! -user 65534)"
}

"$1"
