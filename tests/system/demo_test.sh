#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# scripts/demo: a real recording of the demo guest with the exits that its source says, and a report.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
command -v trace-cmd >/dev/null || skip "trace-cmd is missing"
for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done

session=$work/session.trapline

demo() {  # demo GUEST SYMBOL-FILE
  run "$scripts/demo" --build "$TRAPLINE_BINARY_DIR" --out "$session" "$1"
  cat "$work/stderr"
  expect_equal "exit status" 0 "$status"
  local file
  for file in trace.dat session.json trace-events-all "symbols/$2" guest-console.txt; do
    [ -s "$session/$file" ] || fail "the session lacks $file"
  done
  python3 - "$session/session.json" <<'END' || fail "session.json: $(cat "$session/session.json")"
import json, sys
session = json.load(open(sys.argv[1]))
assert session["closed"] is True and session["clocks"] == {"trace.dat": "mono"}, session
assert session["command"][0] == "trace-cmd", session
END
  expect_contains "$work/stdout" "$ trapline report $session --by reason,device"
  trace-cmd report -N "$session/trace.dat" 2>/dev/null >"$work/text"
}

small_guest_makes_the_exits_that_its_source_says() {
  demo demo demo-guest.elf
  # By trace-cmd and nm alone: the exits whose rip lies in each function of the guest, as in demo.c.
  python3 "$(dirname -- "$0")/exits_by_function.py" "$session/symbols/demo-guest.elf" "$work/text" \
    >"$work/counts"
  local line
  for line in "console_char io 41" "rtc_read io 100" "hpet_read npf 50" "cpuid_read cpuid 10" \
    "msr_read msr 10" "touch_page npf 16" "leave io 1"; do
    expect_contains "$work/counts" "$line"
  done
  # trapline agrees on every function and reason.
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$session" --by function,reason --top 1000 \
    --symbols "$session/symbols/demo-guest.elf" --format json
  expect_equal "exit status of trapline report" 0 "$status"
  python3 - "$work/stdout" >"$work/trapline-counts" <<'END'
import json, sys
for row in json.load(open(sys.argv[1]))["groups"]["rows"]:
    print(*row["key"].split(" / "), row["count"])
END
  # The exit that ends the guest has no entry after it: trapline counts it apart.
  expect_equal "exits by function and reason" \
    "$(grep -v '^\[unknown\]\|^leave io 1$' "$work/counts" | sort)" \
    "$(grep -v '^\[unknown\]' "$work/trapline-counts" | sort)"
}

linux_guest_reads_and_writes_its_disk() {
  demo linux kallsyms
  expect_contains "$session/guest-console.txt" "trapline linux guest: done"
  # 64 blocks each by dd, and some more of the boot.
  local event
  for event in virtio_blk_handle_write virtio_blk_handle_read; do
    [ "$(grep -c "$event" "$work/text")" -ge 64 ] || fail "fewer than 64 of $event"
  done
  expect_contains "$session/symbols/kallsyms" " T vfs_read"
}

"$1"
