#!/bin/sh
# Puts one executable, `sluice`, on this machine: finds the archive of a release that fits it, checks the archive against SHA256SUMS,
# unpacks it, runs it once, and only then moves it into place. It changes nothing else and starts nothing.
#
#   sh install.sh --from ADDRESS [--to FOLDER] [--target TARGET]
#
#   --from ADDRESS    where the files of one release lie: an https address, or a folder (else $SLUICE_RELEASE)
#   --to FOLDER       default: /usr/local/bin for root, else ~/.local/bin (else $SLUICE_INSTALL_DIR)
#   --target TARGET   default: this machine's, such as linux-x64, linux-arm64-musl, darwin-arm64
#
# It needs curl or wget, tar, gzip or zstd, and one of sha256sum, shasum, openssl.
set -eu
umask 022

# `bun run build --all --release-url ADDRESS` writes the project's release page here.
RELEASE_URL=""
USAGE="usage: sh install.sh --from ADDRESS [--to FOLDER] [--target TARGET]"
# No archive is larger, bytes.
MAX_BYTES=1073741824

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "install: $*"
  exit 1
}
has() { command -v "$1" > /dev/null 2>&1; }

read_arguments() {
  from="${SLUICE_RELEASE:-$RELEASE_URL}"
  to="${SLUICE_INSTALL_DIR:-}"
  target=""
  while [ $# -gt 0 ]; do
    case "$1" in
      --from | --to | --target)
        if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value"; fi
        case "$1" in --from) from="$2" ;; --to) to="$2" ;; *) target="$2" ;; esac
        shift 2
        ;;
      -h | --help)
        say "$USAGE"
        exit 0
        ;;
      *) fail "unknown argument $1; $USAGE" ;;
    esac
  done
  from="${from%/}"
  # What comes from there is run: on its way it must not be changed together with its checksum.
  case "$from" in
    "") fail "say where the release lies: --from https://… or a folder" ;;
    *://*@*) fail "an address with a name or a password in it is not taken" ;;
    https://*) protocols="=https" ;;
    http://127.0.0.1:* | http://localhost:*) protocols="=http,https" ;;
    *://*) fail "only https addresses and folders are taken, not $from" ;;
    *) [ -d "$from" ] || fail "there is no folder $from" ;;
  esac
  if [ -z "$to" ] && [ "$(id -u)" = 0 ]; then to=/usr/local/bin; fi
  if [ -z "$to" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set: say where it goes, --to FOLDER"
    to="$HOME/.local/bin"
  fi
}

find_target() {
  machine="$(uname -m)"
  case "$(uname -s)" in
    Linux)
      system=linux
      libc=""
      # The dynamic loader tells which C library programs of this system are made for.
      for loader in /lib/ld-musl-*; do [ -e "$loader" ] && libc=-musl; done
      for loader in /lib/ld-linux-* /lib64/ld-linux-*; do [ -e "$loader" ] && libc=""; done
      # Alpine's gcompat brings the loader of the other one, under which the executable does not run.
      case "$(ldd --version 2>&1 || true)" in *musl*) libc=-musl ;; esac
      ;;
    Darwin)
      system=darwin
      libc=""
      # A shell under Rosetta says x86_64 on a machine that is not.
      [ "$(sysctl -n sysctl.proc_translated 2> /dev/null || true)" = 1 ] && machine=arm64
      ;;
    *) fail "there is no build for $(uname -s) that this script can install; see the archives of the release" ;;
  esac
  case "$machine" in
    x86_64 | amd64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) fail "there is no build for the processor $machine" ;;
  esac
  target="$system-$machine$libc"
}

# fetch NAME FILE: a file of the release.
fetch() {
  case "$from" in
    *://*)
      if has curl; then
        curl --fail --silent --show-error --location --proto "$protocols" --max-filesize "$MAX_BYTES" \
          --connect-timeout 20 --speed-limit 1000 --speed-time 60 --output "$2" "$from/$1"
      elif has wget; then
        wget -q -S -T 60 -O "$2" "$from/$1" 2> "$work/said" || { awk '/^wget:/' "$work/said" >&2; false; }
      else fail "curl or wget is needed"; fi
      ;;
    *) cp "$from/$1" "$2" ;;
  esac || fail "could not get $1 from $from"
  # Unlike curl, wget cannot be told to stay with https: where it was led away, what it has brought is not looked at.
  if [ -s "$work/said" ] && [ "$protocols" = "=https" ] && awk '
    tolower($1) == "location:" && $2 ~ /^[A-Za-z][A-Za-z0-9+.-]*:/ && tolower($2) !~ /^https:/ { led = 1 }
    END { exit !led }' "$work/said"; then fail "$from leads away from https, where anybody on the way can change $1"; fi
}

sum() {
  if has sha256sum; then sha256sum < "$1"
  elif has shasum; then shasum -a 256 < "$1"
  else openssl dgst -sha256 -r < "$1"; fi | cut -c 1-64
}

# Sets `archive` and `expected` from SHA256SUMS.
choose_archive() {
  form=gz
  if has zstd; then form=zst; fi
  lines="$(awk -v end="-$target.tar.$form" '
    index($2, "sluice-") == 1 && substr($2, length($2) - length(end) + 1) == end { print $1, $2 }' "$work/SHA256SUMS")"
  [ -n "$lines" ] || fail "this release has no archive for $target"
  [ "$(printf '%s\n' "$lines" | wc -l)" -eq 1 ] || fail "SHA256SUMS names more than one archive for $target"
  expected="${lines%% *}"
  archive="${lines#* }"
  case "$archive" in *[!A-Za-z0-9._+-]*) fail "SHA256SUMS holds a name that is no archive's" ;; esac
  case "$expected" in *[!0-9a-f]*) fail "SHA256SUMS holds no checksum of $archive" ;; esac
  [ "${#expected}" -eq 64 ] || fail "SHA256SUMS holds no checksum of $archive"
}

unpack() {
  case "$form" in
    zst) zstd -q -d -c "$work/$archive" > "$work/archive.tar" ;;
    *) gzip -d -c "$work/$archive" > "$work/archive.tar" ;;
  esac || fail "$archive cannot be unpacked"
  tar -x -f "$work/archive.tar" -C "$work" "${archive%.tar.*}/sluice" || fail "$archive holds no executable"
}

# Runs the new one beside its place, since the folder for temporary files may forbid it, and moves it in whole.
put_in_place() {
  mkdir -p -- "$to" || fail "cannot make $to"
  # As the PATH has it: from the root, and with no slash at its end.
  whole="$(CDPATH="" cd -- "$to" && pwd)" || fail "cannot enter $to"
  to="$whole"
  [ ! -d "$to/sluice" ] || fail "$to/sluice is a folder"
  fresh="$to/.sluice-new-$$"
  cp "$work/${archive%.tar.*}/sluice" "$fresh" || fail "cannot write to $to"
  chmod 755 "$fresh"
  # macOS ends a program whose signature does not fit it; one without an identity is enough to run here.
  if [ "${target%%-*}" = darwin ] && has codesign && ! codesign --verify "$fresh" 2> /dev/null; then
    codesign --force --sign - "$fresh" || fail "the executable cannot be signed"
  fi
  # A loader that misses a library names each of its symbols: the first lines say which it is.
  version="$("$fresh" --version 2> "$work/complaint")" || {
    status=$?
    awk 'NR <= 3' "$work/complaint" >&2
    case "$target/$status" in
      # Ended by SIGILL.
      *-x64*/132) say "install: it needs SSE4.2, which this processor lacks; a virtual machine may be given another model (x86-64-v2)" ;;
      *-musl/*) say "install: a build for musl needs libstdc++ (apk add libstdc++)" ;;
    esac
    fail "the executable for $target does not run on this machine"
  }
  mv -f "$fresh" "$to/sluice"
  say "Sluice $version is in $to/sluice."
  case ":$PATH:" in *":$to:"*) ;; *) say "Add $to to your PATH to call it by its name." ;; esac
}

# One function, called in the last line: a script that was cut off on its way does nothing.
main() {
  read_arguments "$@"
  [ -n "$target" ] || find_target
  # Before anything is fetched, which is 60 MB.
  has sha256sum || has shasum || has openssl || fail "sha256sum, shasum or openssl is needed"
  has tar || fail "tar is needed"
  has gzip || has zstd || fail "gzip or zstd is needed"
  fresh=""
  work="$(mktemp -d)"
  trap 'rm -rf "$work"; [ -z "$fresh" ] || rm -f "$fresh"' EXIT
  trap 'exit 1' HUP INT TERM
  fetch SHA256SUMS "$work/SHA256SUMS"
  choose_archive
  fetch "$archive" "$work/$archive"
  [ "$(sum "$work/$archive")" = "$expected" ] || fail "the checksum of $archive is wrong: nothing was installed"
  unpack
  put_in_place
}

main "$@"
