"""A pod that has something to lose: it leaves what attackers look for, says so, and stays.

python3 victim.py MARKER KEY
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import time

from attacker import call  # type: ignore[import-not-found]  # It is beside this file in the pod.


def main() -> None:
    marker, key = sys.argv[1], int(sys.argv[2])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + marker)
    listener.listen(16)
    # A wall may keep a pod from these; then it has nothing there to lose.
    with contextlib.suppress(OSError):
        call("shmget", ctypes.c_int(key), ctypes.c_size_t(4096), 0o1666)
    with contextlib.suppress(OSError):
        call("msgget", ctypes.c_int(key), 0o1666)
    with contextlib.suppress(OSError):
        call("mq_open", marker.encode(), os.O_CREAT | os.O_RDWR, 0o666, 0)
    with contextlib.suppress(OSError):
        key_number = call("add_key", b"user", marker.encode(), b"canary", ctypes.c_size_t(6), -4)
        call("keyctl", 15, key_number, 300)  # It goes by itself.
    for folder in ("/scratch", "/memory", "/data", "/dev/shm"):
        with contextlib.suppress(OSError), open(f"{folder}/canary", "w") as file:
            file.write(marker)
    print("ready", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
