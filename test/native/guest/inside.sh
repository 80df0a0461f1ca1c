# What the guest runs: the launcher's own tests, on a kernel and a cgroup hierarchy that the host does not have.
set -eu
cd "$(dirname "$0")/../../.."
export PATH="$PWD/node_modules/.bin:$PATH" HOME=/root LANG=C.UTF-8 NO_COLOR=1 CI=true DSEC_TEST_SLOWNESS=5
# As systemd does, nothing runs in the root group itself.
mkdir /sys/fs/cgroup/session
echo 0 >/sys/fs/cgroup/session/cgroup.procs
# The host has built everything; a source that changes meanwhile is not to be compiled in here.
export MAKEFLAGS=--touch
echo "guest: $(uname -sr), up for $(cut -d' ' -f1 /proc/uptime) s"
exec vitest run --root . --config test/native/guest/vitest.config.ts "$@"
