#!/bin/sh
# A bare Debian 12 below a folder, made from this machine's own package sources, and commands as root inside it.
#
#   bare_root.sh make ROOT                 with git and ca-certificates alone; 1 and the reason, where it cannot be made
#   bare_root.sh in ROOT [BIND]... -- CMD  ROOT is the root of a mount namespace of its own, not a chroot, for which
#                                          user namespaces are closed; each BIND is a folder seen as /mnt/<its name>,
#                                          or FOLDER:PLACE
set -eu

fail() { printf 'bare_root.sh: %s\n' "$*" >&2; exit 1; }

# The files of this machine's package sources that have the suite itself, not a vendor's.
debian_sources() {
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] || continue
    if grep -Eq '^deb +(\[.*\] +)?[^ ]+ +bookworm +.*main' "$file" ||
      { grep -Eq '^Suites:.* bookworm( |$)' "$file" && grep -Eq '^Components:.* main( |$)' "$file"; }; then
      echo "$file"
    fi
  done
}

make_root() {
  root=$1
  [ "$(id -u)" = 0 ] || fail "only root can make one"
  unshare --mount --propagation private true 2>/dev/null || fail "this machine forbids mount namespaces"
  if ! command -v mmdebstrap >/dev/null; then
    apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends mmdebstrap >&2 ||
      fail "mmdebstrap cannot be installed"
  fi
  sources=$(debian_sources)
  [ -n "$sources" ] || fail "apt has no sources of Debian 12 here"
  options=$(mktemp)
  apt-config dump | grep -i '^Acquire::[a-z]*::Proxy' >"$options" || true
  # File names of apt have no spaces.
  # shellcheck disable=SC2086
  mmdebstrap --variant=minbase --include=git,ca-certificates --aptopt="$options" bookworm "$root" $sources >&2 ||
    fail "mmdebstrap failed"
  cp "$options" "$root/etc/apt/apt.conf.d/90proxy"
  rm -f "$options"
}

# Runs as the first process of the mount namespace.
enter() {
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  while [ "$1" != -- ]; do
    case $1 in *:*) place=${1#*:} ;; *) place=/mnt/$(basename "$1") ;; esac
    mkdir -p "$root$place"
    mount --bind "${1%%:*}" "$root$place"
    shift
  done
  shift
  mkdir -p "$root/.outside"
  cd "$root"
  pivot_root . .outside
  umount -l /.outside
  rmdir /.outside
  cd /root
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

case ${1-} in
  make) make_root "$2" ;;
  in) shift; exec unshare --mount --propagation private "$0" enter "$@" ;;
  enter) shift; enter "$@" ;;
  *) fail "takes make or in" ;;
esac
