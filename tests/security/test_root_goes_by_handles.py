"""Every act on the filesystem by a path, in the code that runs as root beside pods: where it is, and why it
may be.

A path that leads through what a pod can write is a pod's to choose. Such acts go by handles
(``node.files.directory_handles``); those in this list go by paths through folders that pods can't change. A new one
fails this test until it is in the list, with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "src" / "pilothouse"
PACKAGES: Final = ("node", "supervise")
OF_OS: Final = frozenset({
    "chmod", "chown", "lchown", "link", "listdir", "makedirs", "mkdir", "mkfifo", "mknod", "open", "remove", "removedirs", "rename",
    "renames", "replace", "rmdir", "scandir", "symlink", "truncate", "unlink", "utime", "walk",
})  # fmt: skip
OF_SHUTIL: Final = frozenset({
    "chown", "copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "move", "rmtree", "unpack_archive",
})  # fmt: skip
OF_PATHS: Final = frozenset({
    "chmod", "extractall", "glob", "hardlink_to", "iterdir", "lchmod", "mkdir", "rename", "rglob", "rmdir", "symlink_to", "touch",
    "unlink", "walk", "write_bytes", "write_text",
})  # fmt: skip
BY_HANDLE: Final = frozenset({"dir_fd", "src_dir_fd"})
REASONS: Final = {
    "handle": "it is given a handle, or the name that the kernel has for one",
    "top": "the beginning of a walk by handles: its parents are nobody's but root's",
    "data": "the node's data folder: pods don't see it",
    "pod": "the folders of pods and containers: their volumes and files are mounted one by one, and the folders that hold them are not",
    "images": "the image store: root's alone, and read-only where a pod sees an image",
    "tier": "the folder of a volume: pods see a folder in it, and not itself",
    "memory": "the node's own tmpfs, or a folder in /dev/shm that was found to be ours: pods see folders in it, and not itself",
    "kernel": "a filesystem of the kernel (/proc, /sys, /dev), where nobody makes links",
    "operator": "a file that the operator names, with the rights of who runs the command",
    "view": "in the container's own mount namespace, where the machine's tree is no more, and a folder of it gets a mirror before anything is made in it",
    "new": "a container's root and own folders, before there is anything of a pod in them",
    "program": "the folder of a program that is updated, or of its bundles: nobody's but root's and the agent's user's, which is checked at the start",
    "run": "a folder for claims that is root's or the agent's user's alone, which is checked once it is open",
}
LEFT: Final[dict[str, dict[str, dict[str, tuple[str, ...]]]]] = {
    "handle": {
        "node/files/directory_handles": {"_Level.files": ("os.scandir",), "change_mode": ("os.chmod",)},
        "node/machine/id_ranges": {"IdRanges._numbers": ("os.listdir",), "_write": ("open",)},
        "node/images/unpacking": {"_listed": ("os.listdir",)},
        "node/updating/installed_tree": {"InstalledTree._prune": ("os.listdir",)},
        "node/volumes/atomic_directory": {"_link": ("os.listdir",), "replace": ("os.listdir",)},
        "node/volumes/tree_copy": {
            "TreeCopy._compare": ("os.listdir",),
            "_copy_attributes": ("os.utime",),
            "_copy_node": ("os.chmod",),
            "_listed": ("os.scandir",),
            "_open_regular": ("os.open",),
        },
    },
    "top": {
        "node/files/directory_handles": {
            "make_directory": ("Path.mkdir", "os.mkdir"),
            "open_directory": ("os.open",),
            "open_regular": ("os.open",),
        },
        "supervise/shim/filesystem_view": {"_copy_source": ("os.open",), "_open_part": ("os.open",)},
        "node/volumes/host_paths": {"_make": ("os.open",)},
    },
    "program": {
        "node/updating/bundle_update": {
            "BundleUpdate._fetch": ("Path.mkdir", "Path.unlink"),
            "_place": ("Path.chmod", "Path.replace", "os.open"),
        },
        "node/updating/installed_program": {
            "InstalledProgram._keep": ("Path.chmod", "Path.replace", "Path.unlink", "shutil.copyfile"),
            "InstalledProgram._stage_kept": ("Path.unlink", "os.link", "shutil.copyfile"),
            "InstalledProgram._swap": ("Path.chmod", "Path.replace"),
            "InstalledProgram.discard_next": ("Path.unlink",),
            "InstalledProgram.stage": ("Path.chmod",),
            "_sync": ("os.open",),
        },
        "node/updating/installed_tree": {
            "InstalledTree._stage": ("Path.mkdir",),
            "InstalledTree._discard_next": ("Path.unlink",),
        },
        "node/updating/tree_launcher": {
            "_locked": ("open",),
            "_private": ("os.open",),
            "_remove": ("os.unlink",),
            "_sync": ("os.open",),
            "_write": ("open", "os.replace"),
            "link": ("os.replace", "os.symlink", "os.unlink"),
        },
    },
    "data": {
        "node/updating/supervised_program": {
            "SupervisedProgram._start": ("Path.mkdir", "Path.write_text"),
            "SupervisedProgram._starts": ("Path.iterdir",),
        },
        "node/updating/update_agent": {"_locked": ("open", "os.open")},
        "node/updating/update_journal": {"_read": ("Path.replace",)},
        "node/addresses/address_records": {"AddressRecords.write": ("Path.mkdir",)},
        "node/machine/shutdown": {"_pod_folders": ("Path.iterdir",)},
        "node/agent": {"_locked": ("open", "os.open")},
        "node/volumes/memory_directories": {
            "MemoryDirectories._rename": ("Path.mkdir", "Path.replace", "Path.write_text")
        },
        "node/volumes/storage_pools": {"StoragePools._keep": ("Path.mkdir", "Path.open", "Path.rename")},
        "node/volumes/volume_owners": {"agent_lives": ("os.open",)},
    },
    "pod": {
        "node/addresses/pod_files": {
            "PodFiles.revise": ("os.open",),
            "PodFiles.write": ("Path.mkdir",),
            "_created": ("os.open",),
        },
        "node/pods/pod_directories": {
            "ContainerDirectory.attempts": ("Path.iterdir",),
            "ContainerDirectory.backoff": ("Path.mkdir",),
            "ContainerDirectory.begin": ("Path.mkdir", "os.open"),
            "PodDirectory.containers": ("Path.iterdir",),
            "PodDirectory.discard": ("Path.glob",),
            "PodDirectory.write_pod": ("Path.mkdir", "Path.rename"),
            "_discard": ("Path.rename",),
            "list_pod_directories": ("Path.iterdir",),
            "unfinished_directories": ("Path.glob",),
            "write_atomically": ("Path.replace", "Path.unlink", "Path.write_bytes"),
        },
        "node/logs/log_rotation": {"numbered": ("Path.glob",)},
        "node/pods/ephemeral_storage": {"measure_storage": ("Path.iterdir",)},
        "node/volumes/atomic_directory": {"replace": ("Path.mkdir",)},
        "node/volumes/container_mounts": {"_bind": ("Path.mkdir", "Path.touch")},
        "node/volumes/pod_volumes": {"PodVolumes._empty_dir": ("Path.mkdir",)},
        "supervise/attach": {"connect": ("os.open",)},
        "supervise/containers": {"_spawn_shim": ("Path.open",)},
        "supervise/container_records": {
            "prepare": ("Path.mkdir",),
            "shim_absent": ("os.open",),
            "write": ("Path.replace", "open", "os.open"),
        },
        "supervise/shim/program_monitor": {
            "MonitoredProgram.__init__": ("os.unlink",),
            "_write_exit": ("os.open", "os.rename"),
            "follow": ("os.unlink",),
        },
        "supervise/shim/shim_main": {
            "_build_view": ("os.makedirs",),
            "_start": ("os.unlink",),
            "_write": ("os.rename",),
            "_write_file": ("os.open",),
            "main": ("os.open",),
        },
        "supervise/shim/log_writer": {
            "LogFiles._rotate": ("os.replace", "os.unlink"),
            "LogFiles.open": ("os.open",),
        },
    },
    "images": {
        "node/containers/container_launch": {"_image_mounts": ("os.listdir",)},
        "node/images/airgap_bundles": {"_exists": ("os.listdir",)},
        "node/images/image_store": {
            "ImageStore._sweep": ("Path.glob",),
            "ImageStore._write": ("Path.mkdir", "Path.open", "Path.rename"),
            "ImageStore.add": ("Path.chmod", "Path.mkdir", "Path.rename", "os.listdir"),
            "ImageStore.list": ("Path.glob",),
            "ImageStore.locked": ("Path.mkdir", "Path.open"),
            "ImageStore.only_folder": ("Path.iterdir",),
            "ImageStore.remove": ("Path.unlink",),
        },
        "node/images/unpacking": {"_Unpacker.__enter__": ("os.open",)},
    },
    "tier": {
        "node/volumes/volume_backend": {"write_durably": ("Path.open", "Path.rename")},
        "node/volumes/move_journal": {"remove_move": ("os.unlink",)},
        "node/volumes/loop_backend": {
            "LoopBackend._mount": ("Path.mkdir",),
            "LoopBackend.make": ("Path.mkdir", "Path.rename", "Path.unlink"),
            "LoopBackend.make_copy": ("Path.rename", "Path.unlink"),
            "LoopBackend.mount_copy": ("Path.mkdir",),
            "LoopBackend.remove_data": ("Path.unlink",),
            "LoopBackend.unmount_copy": ("Path.rmdir",),
            "_extend": ("os.open",),
            "_reserve": ("os.open",),
        },
        "node/volumes/orphaned_volumes": {"folders": ("Path.iterdir",), "mark": ("Path.touch",)},
        "node/volumes/volume_owners": {"VolumeOwners.acquire": ("os.open",)},
    },
    "memory": {
        "node/containers/container_config": {"ContainerConfigurator._shared_memory": ("Path.glob",)},
        "node/volumes/memory_directories": {
            "MemoryDirectories._make_own": ("Path.mkdir",),
            "MemoryDirectories._make_top": ("Path.mkdir",),
            "MemoryDirectories.folder": ("Path.mkdir",),
            "MemoryDirectories.release": ("Path.iterdir",),
            "MemoryDirectories.sized": ("Path.mkdir",),
        },
    },
    "kernel": {
        "node/metrics/process_stats": {"table": ("os.listdir",)},
        "node/volumes/block_devices": {"_below": ("os.listdir",)},
        "node/updating/installed_tree": {"_used": ("os.listdir",)},
        "node/machine/id_ranges": {"_running_ids": ("os.listdir",)},
        "node/images/image_store": {"mounted_by": ("Path.iterdir",)},
        "node/machine/machine_info": {"read_available_resources": ("os.listdir",)},
        "node/volumes/loop_backend": {"_make_node": ("os.mknod",)},
        "node/volumes/mount_holders": {"mount_users": ("os.listdir",)},
        "supervise/cgroups": {
            "Cgroup._why_not": ("Path.write_text",),
            "Cgroup.kill": ("Path.write_text",),
            "Cgroup.make": ("Path.mkdir",),
            "_below": ("os.walk",),
            "_hand_down": ("Path.write_text",),
            "_leave_to_leaf": ("Path.mkdir", "Path.write_text"),
            "_removed": ("Path.rmdir",),
            "release_processors": ("Path.write_text",),
            "remove_empty": ("Path.rmdir",),
        },
        "supervise/exec": {"_Ends.__init__": ("os.open",)},
        "supervise/zombie_reaper": {"pidfd_pids": ("os.listdir",)},
        "supervise/shim/process_setup": {"join": ("open",), "set_oom_score": ("open",)},
        "supervise/shim/process_tree": {"children": ("os.listdir",), "kill_session": ("os.listdir",)},
        "supervise/shim/exec_helper": {"_Namespaces.__init__": ("os.open",)},
        "supervise/shim/program_monitor": {"MonitoredProgram._open_streams": ("os.open",)},
        "supervise/shim/mounts": {
            "_copy_unmounted": ("os.mkdir", "os.scandir"),
            "mount_sys": ("os.makedirs",),
        },
        "supervise/shim/namespaces": {"_map_one": ("open",), "make_user_namespace": ("open", "os.open")},
    },
    "operator": {"node/images/airgap_bundles": {"write_bundle": ("Path.open", "Path.rename", "Path.unlink")}},
    "view": {
        "supervise/shim/mounts": {
            "look_like": ("os.chmod", "os.chown"),
            "make_devices": ("os.mkdir", "os.open", "os.symlink"),
            "overlay": ("os.mkdir", "os.rmdir"),
        },
        "supervise/shim/filesystem_view": {
            "_Tree._bind_all": ("os.listdir", "os.mkdir", "os.open", "os.symlink"),
            "_Tree._cover": ("os.listdir", "os.open"),
            "_Tree._make_target": ("os.mkdir", "os.open"),
            "_Tree.begin": ("os.mkdir", "os.rmdir"),
            "_make_folders": ("os.mkdir",),
        },
    },
    "run": {
        "node/addresses/block_locks": {
            "BlockLocks.open": ("Path.mkdir", "os.open"),
            "_opened": ("Path.mkdir",),
        },
        "node/machine/id_ranges": {"IdRanges._locked": ("Path.mkdir",)},
    },
    "new": {
        "supervise/shim/rootfs": {
            "_etc": ("os.listdir",),
            "_folder": ("os.chmod", "os.makedirs"),
            "_show": ("os.mkdir", "os.symlink"),
            "_write": ("os.open",),
            "make_root": ("os.symlink",),
        },
        "supervise/shim/filesystem_view": {
            "_Tree._show": ("os.makedirs", "os.open", "os.symlink"),
            "_Tree.make_home": ("os.chown",),
        },
    },
}


class Acts(ast.NodeVisitor):
    """The acts by path of a module: the function that they are in, and what is called."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self.found: set[tuple[str, str]] = set()

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope

    def visit_Call(self, node: ast.Call) -> None:
        if (act := self._act(node)) and not BY_HANDLE & {each.arg for each in node.keywords}:
            self.found.add((".".join(self._names) or "module", act))
        self.generic_visit(node)

    def _act(self, node: ast.Call) -> str:
        called = node.func
        if isinstance(called, ast.Name):
            return "open" if called.id == "open" and _writes(node, 1) else ""
        if not isinstance(called, ast.Attribute):
            return ""
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        if owner == "os":
            return f"os.{called.attr}" if called.attr in OF_OS else ""
        if owner == "shutil":
            return f"shutil.{called.attr}" if called.attr in OF_SHUTIL else ""
        if called.attr == "open" and _writes(node, 0):
            return "Path.open"
        if called.attr == "replace" and len(node.args) == 1 and not node.keywords:
            return "Path.replace"
        return f"Path.{called.attr}" if called.attr in OF_PATHS else ""


def _writes(call: ast.Call, place: int) -> bool:
    """Whether a file is opened for more than reading, by the mode that is written there."""
    given = [each.value for each in call.keywords if each.arg == "mode"] + call.args[place : place + 1]
    return any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax+")
        for mode in given
    )


def acts() -> Iterator[tuple[str, str, str]]:
    for package in PACKAGES:
        for file in sorted((SOURCE / package).rglob("*.py")):
            visitor = Acts()
            visitor.visit(ast.parse(file.read_text()))
            name = str(file.relative_to(SOURCE)).removesuffix(".py")
            yield from ((name, function, act) for function, act in visitor.found)


def left() -> Iterator[tuple[str, str, str]]:
    for modules in LEFT.values():
        for module, functions in modules.items():
            yield from ((module, function, act) for function, several in functions.items() for act in several)


def test_every_act_by_path_has_its_reason() -> None:
    new = sorted(set(acts()) - set(left()))
    assert new == [], (
        "go by handles (node.files.directory_handles), or say in LEFT why no pod can change the path"
    )


def test_no_reason_is_for_an_act_that_is_gone() -> None:
    assert sorted(set(left()) - set(acts())) == []


def test_every_reason_is_said_and_each_act_has_one() -> None:
    assert LEFT.keys() == REASONS.keys()
    assert len(list(left())) == len(set(left()))


def test_an_act_by_path_is_noticed() -> None:
    visitor = Acts()
    visitor.visit(
        ast.parse(
            "def one(path, top):\n"
            "    os.chown(path, 0, 0); os.chown('a', 0, 0, dir_fd=top); shutil.rmtree(path); path.write_text('x')\n"
            "    open(path, 'w'); open(path); path.open('ab'); path.open('rb'); path.replace(other); 'a'.replace('b', 'c')\n"
        )
    )
    assert {act for _, act in visitor.found} == {
        "os.chown",
        "shutil.rmtree",
        "Path.write_text",
        "open",
        "Path.open",
        "Path.replace",
    }
