"""What a task sees of its sandbox: one process tree, one interface, power over its own ids alone, nothing of the host's."""

import json
import os


def status(name):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(name + ":"))


def refused(what, act):
    try:
        act()
    except OSError as error:
        print(f"{what}: {error.strerror}", flush=True)
        return True
    print(f"{what}: ALLOWED", flush=True)
    return False


seen = {
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else None,
    "user": os.getuid(),
    "capabilities": status("CapEff"),
    "no_new_privs": status("NoNewPrivs"),
    "seccomp": status("Seccomp"),
    "refused": {
        "host name": refused("set the host name", lambda: __import__("socket").sethostname("mine")),
        "chroot": refused("leave by chroot", lambda: os.chroot("/")),
        "device": refused("make a device", lambda: os.mknod("/tmp/device", 0o020600, os.makedev(1, 1))),
        "host keys": refused("read the host's keys", lambda: os.listdir("/etc/ssl/private")),
    },
}
with open("output.json", "w", encoding="utf-8") as file:
    json.dump(seen, file, indent=2)
