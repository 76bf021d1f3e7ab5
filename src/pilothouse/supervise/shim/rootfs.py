"""The root filesystem of a container: an allow-list of the machine's files, and directories of its own.

    /usr, /bin, /lib…    the machine's programs and libraries, read-only
    /etc                 the container's own, with read-only files of the machine that programs look up
    /tmp /var /home /root    directories of the container's own, on disk, removed with it
    /run /mnt /opt /srv /media   empty directories in memory

Nothing else of the machine is visible: no list of secrets has to be complete.
"""

from __future__ import annotations

import errno
import os
import stat

from pilothouse.supervise.shim import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
OWN = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV

PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

# fmt: off
_ETC = frozenset((
    "alternatives", "bash.bashrc", "bindresvport.blacklist", "ca-certificates", "ca-certificates.conf",
    "crypto-policies", "debian_version", "ethertypes", "fonts", "gai.conf", "group", "host.conf", "inputrc",
    "libaudit.conf", "localtime", "magic", "magic.mime", "mailcap", "mime.types", "mke2fs.conf", "mtab",
    "netconfig", "networks", "nsswitch.conf", "passwd", "perl", "profile", "protocols", "resolv.conf", "rpc",
    "services", "sgml", "shells", "skel", "terminfo", "timezone", "xattr.conf", "xdg", "xml",
    # Of these, only what is public.
    "ssl/certs", "ssl/openssl.cnf", "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf",
))
_ETC_PREFIXES = ("java-", "java", "jvm-", "ld.so.", "ld-musl-", "locale", "lsb-release", "python3")
_ETC_SUFFIXES = ("-release",)
# fmt: on

_MOST_LINKS = 40

FOLDERS = (
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("mnt", 0o755),
    ("media", 0o755),
    ("opt", 0o755),
    ("srv", 0o755),
    ("etc", 0o755),
    ("etc/ssl", 0o755),
    ("etc/pki", 0o755),
    ("etc/pki/tls", 0o755),
)
"""In memory, empty but for what is bound into them."""

DISK = (
    ("tmp", 0o1777),
    ("home", 0o755),
    ("root", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/opt", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
)
"""On disk, in the container's own directory."""
_LINKS = (("var/run", "/run"), ("var/lock", "/run/lock"))


def make_root(root: str, own: str, hostname: str) -> Iterator[str]:
    """Fill `root`, an empty directory; `own` is a directory on disk for what the container writes. Yields the
    paths, as seen inside, at which something of the machine is shown."""
    for name, mode in FOLDERS:
        _folder(f"{root}/{name}", mode)
    for name, mode in DISK:
        _folder(f"{own}/{name}", mode)
    for name, target in _LINKS:
        if not os.path.lexists(f"{own}/{name}"):
            os.symlink(target, f"{own}/{name}")
    for name in PROGRAMS:
        if _show(f"/{name}", f"{root}/{name}"):
            yield f"/{name}"
    for name in _etc():
        if _show(f"/etc/{name}", f"{root}/etc/{name}"):
            yield f"/etc/{name}"
    _write(f"{root}/etc/hostname", f"{hostname}\n")
    _write(f"{root}/etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
    for name, _ in DISK:
        if "/" not in name:
            _folder(f"{root}/{name}", 0o755)
            kernel.attach_mount(kernel.clone_mount(f"{own}/{name}", OWN), f"{root}/{name}")


def _etc() -> list[str]:
    found = [name for name in _ETC if "/" in name]
    for name in os.listdir("/etc"):
        if name in _ETC or name.startswith(_ETC_PREFIXES) or name.endswith(_ETC_SUFFIXES):
            found.append(name)
    return found


def _show(source: str, target: str) -> bool:
    """Show a path read-only; a link into what is shown anyway stays one. False if nothing is mounted."""
    real = os.path.realpath(source)
    if os.path.islink(source) and real.startswith(("/usr/", "/proc/")):
        os.symlink(os.readlink(source), target)
        return False
    try:
        mode = os.stat(real).st_mode
    except (FileNotFoundError, PermissionError):  # Missing, or not accessible.
        return False
    if stat.S_ISDIR(mode):
        os.mkdir(target, 0o755)
    elif stat.S_ISREG(mode):
        _write(target, "")
    else:
        return False
    kernel.attach_mount(kernel.clone_mount(real, READ_ONLY), target)
    return True


def links_and_ends(path: str) -> Iterator[str]:
    """Every symbolic link on the way to a path of the machine, and its end, all resolved."""
    done, rest, followed = "/", _names(path), 0
    while rest:
        name = rest.pop(0)
        if name == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(done, name)
        if os.path.islink(here):
            yield here
            if (followed := followed + 1) > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(here)
            done, rest = "/" if target.startswith("/") else done, _names(target) + rest
        else:
            done = here
    yield done


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _folder(path: str, mode: int) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
