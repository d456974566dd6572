# shellcheck shell=bash
# Sourced: unpacks Debian packages of any suite aside, with everything they depend on, without
# touching the system and without being root. Needs common.sh.
#
# A private apt configuration has its own lists, cache and (empty) package database, so that apt
# resolves the full closure. It starts from this machine's: its proxies and its archive, of which
# only the suite is changed. No archive's host is named here. apt verifies all it downloads against
# Debian's own keyring.

readonly kKeyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Base addresses of the machine's archives, as "REPO_URI|RELEASE" lines. Others than Debian use its
# release names too (and some the component main), so Debian's own come first.
machine_archives() {
  local lines
  # shellcheck disable=SC2016 # apt expands these
  lines=$(apt-get indextargets --format \
    '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(TARGET_OF)|$(CREATED_BY)' |
    sed -n 's/^\([^|]*|[^|]*|[^|]*\)|main|deb|Packages$/\1/p')
  if [ -n "$lines" ]; then
    sed -n 's/^Debian|//p' <<<"$lines"
    sed -n '/^Debian|/!s/^[^|]*|//p' <<<"$lines"
    return
  fi
  # Before the first `apt-get update` there is only what it would fetch.
  apt-get update --print-uris 2>/dev/null |
    sed -n "s%^'\(.*/\)dists/\(.*\)/main/binary-[^/]*/Packages.*%\1|\2%p"
}

# The base address that holds a suite: security suites have an archive of their own.
archive_of() {  # archive_of SUITE ARCHIVE-LINES
  local suite=$1 want_security=no base release
  [[ $suite == *-security ]] && want_security=yes
  while IFS='|' read -r base release; do
    [ -n "$base" ] || continue
    if [[ $release == *-security || $release == */updates ]]; then
      [ $want_security = yes ] && { printf '%s\n' "$base"; return 0; }
    elif [[ $release =~ ^(bullseye|bookworm|trixie|forky|sid|stable|testing|unstable)(-updates|-backports)?$ ]]; then
      [ $want_security = no ] && { printf '%s\n' "$base"; return 0; }
    fi
  done <<<"$2"
  return 1
}

# Makes a private configuration in DIR for ARCH and the suites, and updates its lists.
private_apt_create() {  # private_apt_create DIR ARCH SUITE...
  local dir=$1 arch=$2 suite archives base
  shift 2
  need_command apt-get apt
  [ -r $kKeyring ] || die "$kKeyring is missing: apt-get install debian-archive-keyring"
  mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/etc"
  : >"$dir/status"
  archives=$(machine_archives)
  : >"$dir/etc/sources.list"
  for suite in "$@"; do
    if ! base=$(archive_of "$suite" "$archives"); then
      [[ $suite == *-security ]] && continue  # a machine without security updates configured
      die "this machine's apt names no Debian archive (apt-get indextargets): check /etc/apt/sources.list"
    fi
    printf 'deb [arch=%s signed-by=%s] %s %s main\n' "$arch" $kKeyring "$base" "$suite" \
      >>"$dir/etc/sources.list"
  done
  private_apt_config "$dir" "$arch" >"$dir/apt.conf"
  private_apt "$dir" -q=2 update >&2 ||
    die "apt could not read the package lists of $* (see above): check the network, then start again"
}

# Adds the source packages of the same suites; private_apt DIR source then finds them.
private_apt_add_sources() {  # private_apt_add_sources DIR
  sed -n 's/^deb \[arch=[^ ]* /deb-src [/p' "$1/etc/sources.list" >"$1/etc/sources.new"
  cat "$1/etc/sources.new" >>"$1/etc/sources.list"
  private_apt "$1" -q=2 update >&2 ||
    die "apt could not read the lists of source packages (see above): check the network, then start again"
}

# Downloads the newest source package whose version matches the expression and whose files the
# archive still has: an archive in the middle of an update lists what it does not have yet. Prints
# the version.
private_apt_source() {  # private_apt_source DIR FOLDER PACKAGE EXPRESSION
  local dir=$1 folder=$2 package=$3 expression=$4 version tried=
  while read -r version; do
    if (cd -- "$folder" && private_apt "$dir" -q=2 source --download-only "$package=$version" >&2); then
      printf '%s\n' "$version"
      return 0
    fi
    note "the archive lists $package $version but does not have all its files"
    tried+=" $version"
  done < <(LC_ALL=C apt-cache -c "$dir/apt.conf" showsrc "$package" |
    sed -n 's/^Version: //p' | grep -E -- "$expression" | sort -rV)
  die "this machine's archive has no source package $package that can be downloaded (tried:${tried:- none}): try again later"
}

# Read after the machine's own configuration (apt-get -c), so that it has the last word.
private_apt_config() {  # private_apt_config DIR ARCH
  cat <<END
APT::Architecture "$2";
#clear APT::Architectures;
APT::Architectures { "$2"; };
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::CNF;
Dir::State "$1";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1";
Dir::Cache::archives "$1/archives";
Dir::Etc::sourcelist "$1/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
END
}

private_apt() {  # private_apt DIR ARGUMENTS...
  local dir=$1
  shift
  LC_ALL=C apt-get -c "$dir/apt.conf" "$@"
}

# Downloads packages with all they depend on and unpacks them below ROOT.
private_apt_unpack() {  # private_apt_unpack DIR ROOT [-t SUITE] PACKAGE...
  local dir=$1 root=$2 deb
  shift 2
  private_apt "$dir" -q=2 install -y --download-only "$@" >&2 ||
    die "apt could not download $* (see above): check the network and the disk, then start again"
  mkdir -p "$root"
  for deb in "$dir"/archives/*.deb; do
    dpkg-deb --extract "$deb" "$root" || die "cannot unpack $deb into $root"
  done
}

# Downloads packages alone, without what they depend on.
private_apt_unpack_only() {  # private_apt_unpack_only DIR ROOT PACKAGE...
  local dir=$1 root=$2 deb
  shift 2
  (cd "$dir/archives" && private_apt "$dir" -q=2 download "$@" >&2) ||
    die "apt could not download $* (see above): check the network and the disk, then start again"
  mkdir -p "$root"
  for deb in "$dir"/archives/*.deb; do
    dpkg-deb --extract "$deb" "$root" || die "cannot unpack $deb into $root"
  done
}

