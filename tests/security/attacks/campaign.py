"""A campaign: a plane with a victim's pod and attackers' pods, and what the attackers got.

    loot = campaign("root")["root"]            # {"baseline": {"files_of_the_node_by_path": [], ...}, "baseline, by exec": {...}, ...}

The ways to run it are root's `pilothouse up`, an ordinary user's, and a machine that has joined root's. Each attacker runs all attacks
as its own program and once more by `kubectl exec`. All that comes back is data, so that one campaign serves every test.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import pilothouse
from tests.kit.control_planes import UpPlane, as_ordinary_user
from tests.kit.kubectl import Kubectl
from tests.kit.processes import Process
from tests.kit.waiting import eventually

import pilothouse as installed
from pilothouse.supervise import container_records

HERE = Path(__file__).parent
PYTHON = "/usr/bin/python3"
NOT_ROOT: dict[str, Any] = {"runAsNonRoot": True}
RESTRICTED: dict[str, Any] = {
    **NOT_ROOT,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
USER = {"runAsUser": 1000, "runAsGroup": 1000}
"""An agent that is not root has one user to give, and needs none to be named."""
SMUGGLE = """
import os, shutil, struct
for name in ("id", "cat"):
    shutil.copy(f"/usr/bin/{name}", f"/smuggled/{name}")
os.chmod("/smuggled/cat", 0o755)
for attempt in (
    lambda: os.chmod("/smuggled/id", 0o6755),
    lambda: os.setxattr("/smuggled/cat", "security.capability", struct.pack("<5I", 0x02000001, 0xC0, 0, 0, 0)),
):
    try:
        attempt()
    except OSError as error:
        print(error)
"""
"""A copy that is set-user-id, and one that has the capabilities to change users."""
PAM = "\n".join(f"{kind} sufficient pam_permit.so" for kind in ("auth", "account", "session"))

NAMESPACE = "editors"
FORBIDDEN: dict[str, dict[str, Any]] = {
    "privileged": {"container": {"securityContext": {"privileged": True}}},
    "host_path": {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
    "host_network": {"spec": {"hostNetwork": True}},
    "host_pid": {"spec": {"hostPID": True}},
    "host_ipc": {"spec": {"hostIPC": True}},
    "host_users": {"spec": {"hostUsers": True}},
    "host_port": {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
    "added_capabilities": {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
    "no_filter": {"container": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
    "all_of_proc": {"container": {"securityContext": {"procMount": "Unmasked"}}},
    "kernel_settings": {
        "spec": {"securityContext": {"sysctls": [{"name": "kernel.core_pattern", "value": "|/x"}]}}
    },
}
"""What a namespace at the level `baseline` does not admit, beside `hostUsers`, which is ours."""

Loot = dict[str, dict[str, list[str]]]
"""By attacker and attack."""


@dataclass
class Field:
    """One node that is attacked."""

    kubectl: Kubectl
    node: str
    data: Path
    """The folder of its agent."""
    folders: list[Path]
    """All that no pod may look into."""
    user: dict[str, Any]
    """Whom those run as who are not to be root."""

    def __post_init__(self) -> None:
        self.marker = f"canary-{uuid.uuid4().hex[:12]}"
        self.key = int(uuid.uuid4().hex[:7], 16)
        self.told: dict[str, Any] = {}
        """What the attackers were told."""

    async def attacked(self) -> Loot:
        for folder in self.folders:
            if not (folder / "canary").exists():
                (folder / "canary").write_text(self.marker)
        victims, attackers = f"victims-{self.node}", f"attackers-{self.node}"
        for namespace in (victims, attackers):
            (await self.kubectl("create", "namespace", namespace)).ok()
        await self._apply(self._files(victims, "victim", {"attacker.py": "", "victim.py": ""}))
        await self._apply(self._victim(victims))
        victim = await self._running(victims, "victim")
        self.told = targets = self._targets(victim["metadata"]["uid"])
        await self._apply(self._files(attackers, "attack", {"attacker.py": "", "targets.json": targets}))
        await self._apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "pam", "namespace": attackers},
                "data": {"su": PAM},
            }
        )
        pods = {
            "baseline": self._attacker(attackers, "baseline", {}, "--stay"),
            "restricted": self._attacker(
                attackers, "restricted", RESTRICTED | self.user, "--stay", "--restricted"
            ),
            "smuggler": self._smuggler(attackers),
        }
        await self._apply({"apiVersion": "v1", "kind": "List", "items": list(pods.values())})
        found: Loot = {}
        for got in await asyncio.gather(*(self._loot(attackers, name) for name in pods)):
            found |= got
        for namespace in (attackers, victims):
            (await self.kubectl("delete", "pods", "--all", "-n", namespace, "--timeout=50s")).ok()
        return found

    async def _apply(self, tree: dict[str, Any]) -> None:
        (await self.kubectl("create", "-f", "-", stdin=json.dumps(tree))).ok()

    async def _running(self, namespace: str, name: str) -> dict[str, Any]:
        async def running() -> dict[str, Any] | None:
            found = await self.kubectl("get", "pod", name, "-n", namespace, "-o", "json")
            pod: dict[str, Any] = json.loads(found.ok())
            said = await self.kubectl("logs", name, "-n", namespace, "-c", "main")
            return pod if said.out.startswith("ready\n") else None

        return await eventually(running, seconds=60)

    async def _loot(self, namespace: str, name: str) -> Loot:
        async def by_itself() -> str:
            said = await self.kubectl("logs", name, "-n", namespace, "-c", "main")
            return said.out if " loot>>" in said.out else ""

        try:
            itself = _parsed(await eventually(by_itself, seconds=60))
        except AssertionError:
            said = await self.kubectl("get", "pod", name, "-n", namespace, "-o", "jsonpath={.status}")
            log = await self.kubectl("logs", name, "-n", namespace, "-c", "main", "--tail", "20")
            raise AssertionError(
                f"the attacker {name} did not come to its end: {said.out}\n{log.out}"
            ) from None
        flags = ["--restricted"] if name == "restricted" else []
        command = ["python3", "/attack/attacker.py", "/attack/targets.json", *flags]
        entered = await self.kubectl("exec", name, "-n", namespace, "-c", "main", "--", *command)
        return {name: itself, f"{name}, by exec": _parsed(entered.ok())}

    def _targets(self, victim: str) -> dict[str, Any]:
        """What an attacker may know or guess."""
        folders = [*self.folders, *Path("/dev/shm").glob("pilothouse-*")]
        files = [path for folder in folders for path in _files_below(folder)]
        names = ("admin.kubeconfig", "node.kubeconfig", "canary", "token")
        files.sort(key=lambda path: (path.name not in names, path.suffix != ".key", str(path)))
        containers = [path for path in self.data.glob(f"**/pods/{victim}/containers/*/0") if path.is_dir()]
        states = [state for path in containers if (state := container_records.read_state(path)) is not None]
        assert states, "the victim does not run"
        groups = [Path(group) for path in containers for group in container_records.read_launch(path).cgroups]
        limits = [(group / "pids.max").read_text() for group in groups if (group / "pids.max").exists()]
        program = Path(installed.__file__)
        device = os.stat(self.data).st_dev
        return {
            "marker": self.marker,
            "key": self.key,
            "uids": [victim],
            "own": ["/attack"],
            "folders": [str(folder) for folder in folders],
            "files": [str(path) for path in files[:120]],
            "inodes": {str(path): path.stat().st_ino for path in files[:10]},
            "sockets": [str(path) for folder in folders for path in folder.glob("**/*") if _is_socket(path)],
            "pids": [str(pid) for state in states for pid in (state.pid, state.shim_pid)],
            "programs": [str(program.parent), sysconfig.get_path("purelib")],
            "program_files": [str(program)],
            "installation": [str(program.parents[1]), sys.prefix, sys.base_prefix],
            "device": device,
            "disk": f"/dev/block/{os.major(device)}:{os.minor(device)}",
            "limited": not limits or all(limit.strip() != "max" for limit in limits),
        }

    def _files(self, namespace: str, name: str, files: dict[str, Any]) -> dict[str, Any]:
        data = {
            file: json.dumps(content) if content else (HERE / file).read_text()
            for file, content in files.items()
        }
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def _pod(self, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace}
        everything = {"nodeName": self.node, "terminationGracePeriodSeconds": 1, **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": everything}

    def _victim(self, namespace: str) -> dict[str, Any]:
        mounts = [("files", "/victim"), ("scratch", "/scratch"), ("memory", "/memory")]
        main = {
            "name": "main",
            "image": "host/python3",
            "command": ["python3", "-B", "/victim/victim.py", self.marker, str(self.key)],
            "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts],
        }
        terminal = {
            "name": "terminal",
            "image": "host/sh",
            "command": ["sh", "-c", f"sleep 3600; : {self.marker}"],
            "tty": True,
            "stdin": True,
        }
        volumes = [
            {"name": "files", "configMap": {"name": "victim"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ]
        return self._pod(namespace, "victim", containers=[main, terminal], volumes=volumes)

    def _attacker(
        self, namespace: str, name: str, context: dict[str, Any], *flags: str, **more: Any
    ) -> dict[str, Any]:
        mounts = [
            ("attack", "/attack", ""),
            ("scratch", "/scratch", ""),
            ("scratch", "/smuggled", ""),
            ("pam", "/etc/pam.d/su", "su"),
        ]
        main = {
            "name": "main",
            "image": "host/python3",
            "command": ["python3", "-B", "/attack/attacker.py", "/attack/targets.json", *flags],
            "securityContext": context,
            "volumeMounts": [
                {"name": volume, "mountPath": path, **({"subPath": part} if part else {})}
                for volume, path, part in mounts
            ],
        }
        volumes = [
            {"name": "attack", "configMap": {"name": "attack"}},
            {"name": "pam", "configMap": {"name": "pam"}},
            {"name": "scratch", "emptyDir": {}},
        ]
        return self._pod(namespace, name, containers=[main], volumes=volumes, **more)

    def _smuggler(self, namespace: str) -> dict[str, Any]:
        first = {
            "name": "first",
            "image": "host/python3",
            "command": ["python3", "-c", SMUGGLE],
            "volumeMounts": [{"name": "scratch", "mountPath": "/smuggled"}],
        }
        return self._attacker(namespace, "smuggler", NOT_ROOT | self.user, "--stay", initContainers=[first])


class Editor:
    """A service account with `edit` in a namespace of its own, which asks for more than that."""

    def __init__(self, admin: Kubectl, folder: Path) -> None:
        self._admin = admin
        self._config = folder / "editor.kubeconfig"
        self._kubectl = Kubectl(admin.binary, self._config, folder / "editor-home")

    async def attacked(self) -> Loot:
        admin = self._admin
        (await admin("create", "namespace", NAMESPACE)).ok()
        (await admin("create", "serviceaccount", "editor", "-n", NAMESPACE)).ok()
        account = f"--serviceaccount={NAMESPACE}:editor"
        (await admin("create", "rolebinding", "editor", "--clusterrole=edit", account, "-n", NAMESPACE)).ok()
        token = (await admin("create", "token", "editor", "-n", NAMESPACE)).ok().strip()
        config = json.loads(admin.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        self._config.write_text(json.dumps(config))

        async def is_editor() -> bool:
            return (await self._kubectl("auth", "can-i", "create", "pods", "-n", NAMESPACE)).code == 0

        await eventually(is_editor, seconds=30)
        got = {f"pods_with_{word}": await self._pod(word, change) for word, change in FORBIDDEN.items()}
        got["labels_of_its_namespace"] = await self._commands(
            ("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged"),
            ("annotate", "namespace", NAMESPACE, "x=y"),
            ("create", "namespace", f"{NAMESPACE}-more"),
        )
        got["rights_of_its_own_making"] = await self._commands(
            ("create", "clusterrolebinding", "more", "--clusterrole=cluster-admin", account),
            ("create", "rolebinding", "more", "--clusterrole=cluster-admin", account, "-n", NAMESPACE),
            ("create", "rolebinding", "more", "--clusterrole=edit", account, "-n", "kube-system"),
        )
        got["a_privileged_pod_by_a_set"] = await self._set()
        return {"editor": got}

    async def _pod(self, word: str, change: dict[str, Any]) -> list[str]:
        """Asked for as a dry run, which is judged like any other: nothing is to run where there is no wall."""
        container = {"name": "main", "image": "host/sh", **change.get("container", {})}
        spec = {"containers": [container], **change.get("spec", {})}
        metadata = {"name": "attack", "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        done = await self._kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(pod))
        return _refused(word, done.code, done.err)

    async def _commands(self, *commands: tuple[str, ...]) -> list[str]:
        found = []
        for words in commands:
            done = await self._kubectl(*words, "--dry-run=server")
            found += _refused(" ".join(words[:3]), done.code, done.err)
        return found

    async def _set(self) -> list[str]:
        """The controllers may make pods of any kind: what they make is judged too. An honest set comes after the other, so that
        it is known when they have got so far."""
        for name, change in (("attack", FORBIDDEN["privileged"]["container"]), ("honest", {})):
            (await self._kubectl("create", "-f", "-", stdin=json.dumps(_stateful_set(name, change)))).ok()

        async def made() -> str:
            pods = await self._kubectl("get", "pods", "-n", NAMESPACE, "-o", "name")
            return pods.out if "honest-0" in pods.out else ""

        pods = (await eventually(made, seconds=60)).split()
        (await self._kubectl("delete", "statefulsets", "--all", "-n", NAMESPACE)).ok()
        (await self._kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--timeout=50s")).ok()
        return [pod for pod in pods if "honest" not in pod]


def _stateful_set(name: str, change: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "host/sleep", "command": ["sleep", "3600"], **change}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "serviceName": name,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _refused(label: str, code: int, said: str) -> list[str]:
    if code == 0:
        return [label]
    return [] if "forbidden" in said.lower() else [f"broken: {label}: {said}"]


def _parsed(said: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(said.partition("<<loot ")[2].partition(" loot>>")[0])["loot"]
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink() and path.stat().st_size:
                yield path


def _is_socket(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_socket()
    return False


def campaign(kind: str) -> dict[str, Loot]:
    """By way: those that root's plane serves, or an ordinary user's. Skips where it can't be run."""
    if not Path(PYTHON).exists():
        pytest.skip(f"attackers are programs of {PYTHON}, which is not there")
    return asyncio.run(_by_root() if kind == "root" else _by_an_ordinary_user())


async def _by_an_ordinary_user() -> dict[str, Loot]:
    with as_ordinary_user() as (folder, command, env), _Tier(folder) as tier:
        flags = ("--tier", f"fast={tier}")
        with UpPlane(folder, *flags, command=command, env=env) as plane:
            field = Field(plane.kubectl, "n1", plane.data, [plane.data, tier], {})
            found, editors = await asyncio.gather(_ended(field), Editor(plane.kubectl, folder).attacked())
            return {"ordinary": found | editors}


async def _by_root() -> dict[str, Loot]:
    if os.geteuid():
        pytest.skip("root's walls are attacked by root")
    with tempfile.TemporaryDirectory(prefix="pilothouse-attacked-") as name:
        folder = Path(name)
        with _Tier(folder) as tier, UpPlane(folder, "--tier", f"fast={tier}") as plane:
            first = Field(plane.kubectl, "n1", plane.data, [plane.data, tier], USER)
            with _joined(plane, folder / "j1") as data:
                second = Field(plane.kubectl, "j1", data, [data, plane.data, tier], USER)
                editor = Editor(plane.kubectl, folder)
                root, joined, got = await asyncio.gather(_ended(first), _ended(second), editor.attacked())
                return {"root": root | got, "joined": joined, "unwalled": await _unwalled(first)}


async def _unwalled(field: Field) -> Loot:
    """The attacks as a program of the machine, beside a victim that is one too: it shows that they work."""
    files = field.data.parent / "unwalled"
    files.mkdir()
    outcome: Loot = {}
    told, field = field.told, dataclasses.replace(field)
    words = [PYTHON, "-B", str(HERE / "victim.py"), field.marker, str(field.key)]
    victim = Process.start("victim", words, log=files / "victim.log")
    terminal = os.openpty()
    try:
        victim.wait_until(lambda: "ready" in victim.output(), seconds=20)
        targets = told | {"pids": [str(victim.pid)], "marker": field.marker, "key": field.key}
        (files / "targets.json").write_text(json.dumps(targets))
        attacker = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--uts", "--propagation", "private", PYTHON, "-B"),
            *(str(HERE / "attacker.py"), str(files / "targets.json")),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await asyncio.wait_for(attacker.communicate(), 120)
        outcome["program"] = _parsed(said.decode())
    finally:
        victim.end()
        for end in terminal:
            os.close(end)
        _forget(field)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/dev/shm/canary")
    return outcome


async def _ended(field: Field) -> Loot:
    try:
        return await field.attacked()
    finally:
        _forget(field)


class _Tier:
    """A folder for volumes on another disk, in which something lies already."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tier"

    def __enter__(self) -> Path:
        self._path.mkdir()
        (self._path / "canary").write_text("canary")
        owner = self._path.parent.stat()
        for path in (self._path, self._path / "canary"):
            os.chown(path, owner.st_uid, owner.st_gid)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


@contextlib.contextmanager
def _joined(plane: UpPlane, data: Path) -> Iterator[Path]:
    made = pilothouse("token", "create", "--kubeconfig", str(plane.data / "admin.kubeconfig"))
    assert made.returncode == 0, made.stderr
    flags = ["--name", "j1", "--data", str(data), "--listen", "127.0.0.1:0", "--stop-pods"]
    argv = [sys.executable, "-m", "pilothouse", "join", made.stdout.strip(), *flags]
    process = Process.start("j1", argv, log=plane.folder / "j1.log")
    try:
        process.wait_until(lambda: "node j1 is ready" in process.output(), seconds=60)
        yield data
    finally:
        process.end(seconds=30)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if (point := line.split()[4]).startswith(f"{data}/"):
                subprocess.run(["umount", "--lazy", point], check=False)


def _forget(field: Field) -> None:
    """What a victim has left on the machine itself, where there was no wall around it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for get, control in ((libc.shmget, libc.shmctl), (libc.msgget, libc.msgctl)):
        found = get(field.key, 0, 0) if get is libc.shmget else get(field.key, 0)
        if found >= 0:
            control(found, 0, None)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL("librt.so.1").mq_unlink(b"/" + field.marker.encode())
