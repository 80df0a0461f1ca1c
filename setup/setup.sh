#!/bin/sh
# Brings a fresh clone to where DSec runs (`run`), its tests pass (`test`), or the launcher's tests run on another
# kernel (`guest`). Every step looks before it acts, so that a second call does nothing and says nothing. Run by
# `npm start`, `npm test` and `npm run test:guest`.
set -eu
cd "$(dirname "$0")/.."
goal=${1:-run}
log=build/setup.log
# once npm has run, `node` is the Node 24 that the project brings
PATH=$PWD/node_modules/.bin:$PATH

# A file that proves the package is there, and the Debian package that brings it.
run_packages="
/usr/bin/make                              make
/usr/bin/g++                               g++
/usr/include/seccomp.h                     libseccomp-dev
/usr/include/nlohmann/json.hpp             nlohmann-json3-dev
/usr/lib/$(uname -m)-linux-musl/libc.a      musl-dev
/usr/bin/mkfs.erofs                        erofs-utils
/usr/bin/pydoc3                            python3
/etc/ssl/certs/ca-certificates.crt         ca-certificates
"
test_packages="
/usr/bin/zstd                              zstd
/usr/lib/postgresql/15/bin/postgres        postgresql-15
/usr/lib/softhsm/libsofthsm2.so            softhsm2
/usr/bin/softhsm2-util                     softhsm2
/usr/bin/redis-server                      redis-server
/usr/bin/chromium                          chromium
/usr/bin/curl                              curl
/usr/bin/wget                              wget
/usr/bin/pip3                              python3-pip
/usr/bin/free                              procps
/usr/bin/openssl                           openssl
/usr/bin/xz                                xz-utils
/bin/busybox                               busybox-static
/usr/bin/crun                              crun
/usr/bin/fc-list                           fontconfig
/usr/bin/keytool                           default-jre-headless
"

guest_packages="
/usr/bin/qemu-system-x86_64                qemu-system-x86
/sbin/mkfs.ext4                            e2fsprogs
/usr/bin/xz                                xz-utils
"

main() {
  case $goal in
    run) packages=$run_packages ;;
    test) packages=$run_packages$test_packages ;;
    guest) packages=$run_packages$guest_packages ;;
    *) fail "usage: sh setup/setup.sh run|test|guest" ;;
  esac
  mkdir -p build
  # npm start and npm test may be called side by side in one checkout; the second waits for the first
  exec 9>build/setup.lock
  flock 9
  started_s=$(date +%s)
  acted=no
  debian_packages
  npm_packages
  native_parts
  database_template
  [ "$goal" != test ] || hsm_driver
  [ $acted = no ] || say "ready after $(($(date +%s) - started_s)) s"
}

debian_packages() {
  wanted=$(echo "$packages" | while read -r file package; do
    [ -z "$file" ] || [ -e "$file" ] || echo "$package"
  done | sort -u | tr '\n' ' ')
  [ -n "$wanted" ] || return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
    fail "these Debian packages (or their like) are missing: $wanted" \
      "install them, or run this as root on Debian so that it can: apt-get install $wanted"
  act "installing Debian packages: $wanted"
  export DEBIAN_FRONTEND=noninteractive
  # Package lists may be absent or older than the mirror: fetch them only when an install fails without.
  logged apt_install || { logged apt-get update && logged apt_install; } ||
    fail "apt-get could not install: $wanted"
  for file in $(echo "$packages" | while read -r file _; do echo "$file"; done); do
    [ -e "$file" ] || fail "$file is still missing after apt-get install"
  done
}

# Tests start their own servers as they need them; none is left running on the machine by the install.
apt_install() {
  # shellcheck disable=SC2086
  RUNLEVEL=1 apt-get install --yes --no-install-recommends $wanted
}

# Half of what the tests need is for the tests alone, so that a first start does without. Into a tree that is there only what
# differs from the lock file is put, for a server may be running on it; `npm ci` would take all of it away first.
npm_packages() {
  stamp=node_modules/.dsec-lock
  lock=$(sha256sum package-lock.json)
  case $goal in
    run) omitted=--omit=dev kind=run ;;
    *) omitted= kind=all ;;
  esac
  installed=$(cat $stamp 2>/dev/null || :)
  [ "$installed" != "$lock all" ] && [ "$installed" != "$lock $kind" ] || return 0
  act "installing npm packages (about a minute; no install script is run)"
  [ -n "$installed" ] && install="install --no-save" || install=ci
  # shellcheck disable=SC2086
  logged npm $install $omitted --ignore-scripts --no-audit --no-fund --loglevel=error || fail "npm $install failed"
  echo "$lock $kind" >$stamp
}

native_parts() {
  make --question --silent -C native 2>/dev/null && return 0
  act "building the sandbox launcher"
  logged make --silent -j"$(nproc)" -C native || fail "the native build failed"
}

# An empty database with every migration applied: opening a copy takes a fraction of making one anew.
database_template() {
  inputs=$(cat package-lock.json gateway/store/migrat*.ts gateway/node/pglite-template.ts | sha256sum)
  stamp=build/pglite-template.stamp
  [ -e build/pglite-template ] && [ -e $stamp ] && [ "$(cat $stamp)" = "$inputs" ] && return 0
  act "preparing the embedded database"
  logged node setup/pglite-template.ts || fail "the database template could not be made"
  echo "$inputs" >$stamp
}

# pkcs11js is the one npm package that must be compiled. Only signing with a hardware module needs it.
hsm_driver() {
  module=node_modules/pkcs11js
  [ ! -d $module ] || [ -e $module/build/Release/pkcs11.node ] && return 0
  act "building the PKCS#11 driver"
  for headers in node_modules/node-linux-* "$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")"; do
    [ ! -e "$headers/include/node/node_api.h" ] || break
  done
  headers=$(readlink -f "$headers")
  logged npm rebuild pkcs11js --ignore-scripts=false --nodedir="$headers" || fail "the PKCS#11 driver failed to build"
}

act() {
  [ $acted = yes ] || : >$log
  acted=yes
  say "$1"
}

say() {
  echo "setup: $1"
}

# Children must not inherit the lock: a service that outlives us would hold it.
logged() {
  "$@" >>$log 2>&1 9>&- </dev/null
}

fail() {
  echo "setup: $1" >&2
  [ $# -lt 2 ] || echo "setup: $2" >&2
  [ ! -s $log ] || [ "${acted:-no}" = no ] || {
    echo "setup: the last lines of $log:" >&2
    tail -n 25 $log | sed 's/^/  /' >&2
  }
  exit 1
}

main
