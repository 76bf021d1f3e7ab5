"""Elasticsearch at an address that others can reach insists on 65535 open files, and a machine's limit can't always be raised, not even by root.

    with told_limit() as variables:               # {} where the limit is high enough
        pilothouse image import … --env NAME=VALUE

Where it is not, a library that is loaded before all others tells programs that they may have that many: a test needs far fewer. The limit itself
stays as it is.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
from collections.abc import Iterator

from tests.kit.ordinary_user import ordinary_folder
from tests.kit.tools import MissingTool

ENOUGH = 65535
_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>

int getrlimit64(__rlimit_resource_t what, struct rlimit64 *told) {
    int (*real)(__rlimit_resource_t, struct rlimit64 *) = dlsym(RTLD_NEXT, "getrlimit64");
    int failed = real(what, told);
    if (!failed && what == RLIMIT_NOFILE && told->rlim_max < 65535) told->rlim_cur = told->rlim_max = 65535;
    return failed;
}

int getrlimit(__rlimit_resource_t what, struct rlimit *told) {
    return getrlimit64(what, (struct rlimit64 *) told);
}

int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *asked) {
    int (*real)(__rlimit_resource_t, const struct rlimit64 *) = dlsym(RTLD_NEXT, "setrlimit64");
    return what == RLIMIT_NOFILE ? 0 : real(what, asked);
}

int setrlimit(__rlimit_resource_t what, const struct rlimit *asked) {
    return setrlimit64(what, (const struct rlimit64 *) asked);
}
"""


@contextlib.contextmanager
def told_limit() -> Iterator[dict[str, str]]:
    """The variables of a program that is to be content. Raises ``MissingTool`` where it takes a compiler and there is none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH:
        yield {}
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingTool(f"only {hard} files may be open here, {ENOUGH} are needed: raise it (ulimit -n)")
    with ordinary_folder() as folder:
        source, library = folder / "limits.c", folder / "limits.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        folder.chmod(0o755)
        library.chmod(0o755)
        yield {"LD_PRELOAD": str(library)}
