# shellcheck shell=bash
# Sourced: installs the packages listed in scripts/packages. Needs common.sh.

# One name per line: of these sections, or of all; not those whose program is there.
packages_wanted() {  # packages_wanted [SECTION...]
  local package program section=
  sed -e 's/#.*//' "$TRAPLINE_ROOT/scripts/packages" | while read -r package program; do
    if [[ $package == \[*\] ]]; then section=${package:1:-1}; continue; fi
    [ -n "$package" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $section "* ]] || continue
    [ -z "$program" ] || ! command -v "${program#command:}" >/dev/null || continue
    printf '%s\n' "$package"
  done
}

packages_missing() {  # packages_missing [SECTION...]
  local installed
  # db:Status-Status is "installed" for the good ones only; a removed package keeps its line.
  # shellcheck disable=SC2016 # dpkg-query expands these, not the shell
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
    sed -n 's/^installed //p' | sort -u)
  comm -13 <(printf '%s\n' "$installed") <(packages_wanted "$@" | sort -u)
}

# Installs what is missing as root; for anybody else prints the one command to run, and ends.
packages_install() {  # packages_install [SECTION...]
  local missing log
  command -v apt-get >/dev/null || die "apt-get is missing: this needs Debian 12 or a relative of it"
  mapfile -t missing < <(packages_missing "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    note "these packages are missing; run this, then start again:"
    printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
    exit 1
  fi
  note "installing ${#missing[@]} packages"
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  # An old package list names files that a mirror no longer has: update once, then install.
  apt-get -q update >"$log" 2>&1 || note "apt-get update failed; trying with the package lists at hand"
  apt-get -q install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 ||
    { tail -n 20 -- "$log" >&2
      die "apt-get install failed (all it printed: $log): check the network and /etc/apt, then start again"; }
  rm -f -- "$log"
}
