"""What the server unmaps after its start must come back as it was: a wrong choice here ends the process."""

from __future__ import annotations

import subprocess
import sys

from pilothouse.app.memory_tuning import clean_mappings

ACCOUNT = """\
1000-2000 r--p 00000000 fe:01 77                 /usr/lib/libx.so
Rss:                   4 kB
Anonymous:             0 kB
2000-3000 r-xp 00001000 fe:01 77                 /usr/lib/libx.so
Anonymous:             0 kB
3000-4000 r--p 00002000 fe:01 77                 /usr/lib/libx.so
Anonymous:             4 kB
4000-5000 rw-p 00003000 fe:01 77                 /usr/lib/libx.so
Anonymous:             0 kB
5000-6000 rw-p 00000000 00:00 0                  [heap]
Anonymous:             0 kB
6000-7000 r--s 00000000 fe:01 78                 /usr/lib/gconv-modules.cache
Anonymous:             0 kB
7000-8000 r-xp 00000000 fe:01 79                 /usr/lib/liby.so (deleted)
Anonymous:             0 kB
8000-9000 r-xp 00000000 00:00 0                  [vdso]
Anonymous:             0 kB
9000-a000 r--p 00000000 00:00 0
Anonymous:             0 kB
"""

SETTLED = """\
import ssl, uvloop, aiohttp.web, apsw, jsonschema_rs
from cryptography.hazmat.primitives.asymmetric import ec
from pilothouse.app import memory_tuning
memory_tuning.settle()
ec.generate_private_key(ec.SECP256R1())
ssl.create_default_context()
assert jsonschema_rs.Draft202012Validator({"pattern": "^a+$"}).is_valid("aa")
print(apsw.Connection(":memory:").execute("select 6 * 7").get)
"""


def test_files_that_nobody_wrote_to_are_chosen() -> None:
    assert list(clean_mappings(ACCOUNT)) == [(0x1000, 0x2000), (0x2000, 0x3000)]


def test_everything_works_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
