#!/bin/sh
# in_tool.sh FETCH TEST.py TRAPLINE RECORDING...: runs the test with the folder of a tool that is fetched aside.
# Without node or the tool it skips with the reason; where TRAPLINE_REQUIRE_SYSTEM=1 that is a failure.
set -eu
skip() {
  echo "skipped: $*"
  [ "${TRAPLINE_REQUIRE_SYSTEM:-0}" = 1 ] && exit 1
  exit 77
}
fetch=$1 test=$2 trapline=$3
shift 3
folder=-
if [ "$fetch" = uftrace ]; then
  command -v uftrace >/dev/null || skip "there is no uftrace: apt-get install uftrace"
  folder=$("$TRAPLINE_SOURCE_DIR/scripts/fetch" uftrace-forky) || skip "scripts/fetch uftrace-forky failed (see above)"
elif [ "$fetch" != - ]; then
  command -v node >/dev/null || skip "there is no node: apt-get install nodejs npm"
  folder=$("$TRAPLINE_SOURCE_DIR/scripts/fetch" "$fetch") || skip "scripts/fetch $fetch failed (see above)"
fi
exec "$TRAPLINE_SOURCE_DIR/tests/support/apart" network python3 "$test" "$trapline" "$folder" "$@"
