# shellcheck shell=bash
# Sourced: the version of this tree. Needs common.sh.

# 0.1.0 at the tag v0.1.0; after it 0.1.0+git7.g1234567; before the first tag 0.1.0~git914.g1234567, which
# sorts before 0.1.0. A tarball of scripts/dist has it in .tarball-version.
tree_version() {
  local number described
  if [ -f "$TRAPLINE_ROOT/.tarball-version" ]; then
    cat -- "$TRAPLINE_ROOT/.tarball-version"
    return
  fi
  number=$(sed -n 's/^project(trapline VERSION \([0-9.]*\).*/\1/p' "$TRAPLINE_ROOT/CMakeLists.txt")
  if described=$(git -C "$TRAPLINE_ROOT" describe --tags --match 'v[0-9]*' --long 2>/dev/null); then
    # v0.1.0-7-g1234567
    [[ $described =~ ^v(.*)-([0-9]+)-(g[0-9a-f]+)$ ]] || die "git describe says $described: not a version"
    if [ "${BASH_REMATCH[2]}" = 0 ]; then
      printf '%s\n' "${BASH_REMATCH[1]}"
    else
      printf '%s+git%s.%s\n' "${BASH_REMATCH[@]:1}"
    fi
  elif git -C "$TRAPLINE_ROOT" rev-parse --verify -q HEAD >/dev/null; then
    printf '%s~git%s.g%s\n' "$number" "$(git -C "$TRAPLINE_ROOT" rev-list --count HEAD)" \
      "$(git -C "$TRAPLINE_ROOT" rev-parse --short=7 HEAD)"
  else
    printf '%s\n' "$number"
  fi
}

# Seconds since 1970 of what the tree holds: the commit's, or that of the tarball's version file.
tree_time() {
  git -C "$TRAPLINE_ROOT" log -1 --format=%ct 2>/dev/null ||
    stat --format=%Y "$TRAPLINE_ROOT/.tarball-version" 2>/dev/null || date +%s
}
