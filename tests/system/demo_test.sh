#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# scripts/demo: a real recording of the demo guest with the exits that its source says, and a report.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
command -v trace-cmd >/dev/null || skip "trace-cmd is missing"
for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done

run "$scripts/demo" --build "$TRAPLINE_BINARY_DIR" --out "$work/demo.trapline"
cat "$work/stderr"
expect_equal "exit status" 0 "$status"
session=$work/demo.trapline
for file in trace.dat session.json trace-events-all symbols/demo-guest.elf guest-console.txt; do
  [ -s "$session/$file" ] || fail "the session lacks $file"
done
python3 - "$session/session.json" <<'END' || fail "session.json: $(cat "$session/session.json")"
import json, sys
session = json.load(open(sys.argv[1]))
assert session["closed"] is True and session["clocks"] == {"trace.dat": "mono"}, session
assert session["command"][0] == "trace-cmd", session
END
expect_contains "$work/stdout" "$ trapline report $session --by reason,device"

# By trace-cmd and nm alone: the exits whose rip lies in each function of the guest, as in demo.c.
trace-cmd report -N "$session/trace.dat" 2>/dev/null >"$work/text"
python3 "$(dirname -- "$0")/exits_by_function.py" "$session/symbols/demo-guest.elf" "$work/text" \
  >"$work/counts"
for line in "console_char io 41" "rtc_read io 100" "hpet_read npf 50" "cpuid_read cpuid 10" \
  "msr_read msr 10" "touch_page npf 16" "leave io 1"; do
  expect_contains "$work/counts" "$line"
done
