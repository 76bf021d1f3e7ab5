"""The flags of update plans: of the node that they update, of the manager that follows update servers, and
of a command that starts both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError, read_file
from pilothouse.base.quantity import QuantityError, parse_quantity
from pilothouse.cli.flags import several
from pilothouse.cli.parameters import FILE

if TYPE_CHECKING:
    from pilothouse.app.node_updates import UpdateOptions


class HostFile(click.ParamType[tuple[str, Path]]):
    """``HOST=FILE``; in the program, the two."""

    name = "host=file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        if isinstance(value, tuple):
            return value
        host, equals, file = value.partition("=")
        if not equals or not host or not file or "/" in host:
            self.fail(f"{value!r} names no host: write HOST=FILE or HOST:PORT=FILE", param, ctx)
        return host.lower(), Path(file)


class Size(click.ParamType[int]):
    """``500Mi``, ``4Gi``; in the program, bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = parse_quantity(value).to_int()
        except QuantityError as problem:
            self.fail(str(problem), param, ctx)
        if size <= 0:
            self.fail(f"{value!r} is not a size: it must be positive", param, ctx)
        return size


_download_flags = several(
    click.option(
        "--payloads",
        type=click.Choice(("any", "digest", "signed")),
        default="any",
        show_default=True,
        help="Which downloads are installed: any, those with a hash in the plan, or signed ones.",
    ),
    click.option(
        "--trusted-keys",
        type=FILE,
        help="File with minisign public keys, one a line, of which one must have signed each download.",
    ),
    click.option(
        "--download-ca",
        "download_authorities",
        type=HostFile(),
        multiple=True,
        metavar="HOST=FILE",
        help="CA of a host that updates are downloaded from. May be repeated.",
    ),
    click.option(
        "--download-token",
        "download_tokens",
        type=HostFile(),
        multiple=True,
        metavar="HOST=FILE",
        help="File with the bearer token for a host, sent over https only. May be repeated.",
    ),
    click.option(
        "--max-download-size",
        type=Size(),
        default="4Gi",
        show_default=True,
        help="Maximum size of a download.",
    ),
)
update_flags = several(
    click.option(
        "--mode",
        type=click.Choice(("worker", "controller", "controller+worker")),
        default="worker",
        show_default=True,
        help="Role of this machine in update plans. A controller is updated through its ControlNode; "
        "without worker it is no Node and runs no pods.",
    ),
    click.option(
        "--no-pods",
        is_flag=True,
        help="Run no pods and register no Node, beside a kubelet for example: carry out update plans alone.",
    ),
    click.option(
        "--update-profile",
        default="",
        metavar="FILE|k0s|pilothouse",
        help="What update plans update here, as YAML; pilothouse for this program itself. Default: k0s if "
        "--mode or --no-pods is given, else nothing.",
    ),
    _download_flags,
    click.option(
        "--api-port",
        type=click.IntRange(0, 65535),
        default=0,
        help="Port of the API server on this machine, for its ControlNode. Default: none is reported.",
    ),
)
plane_update_flags = several(
    click.option(
        "--update-profile",
        default="",
        metavar="FILE|k0s",
        help="What update plans update on this machine, as YAML. Default: nothing.",
    ),
    _download_flags,
)
"""Of a whole control plane, whose one machine is controller and worker."""
update_server_flags = several(
    click.option(
        "--update-prober",
        default="",
        metavar="URL",
        help="Update server to ask every half hour for a newer version; an Event announces it. Nothing is "
        "asked while there is an UpdateConfig.",
    ),
    click.option(
        "--update-server-ca",
        "update_authorities",
        type=HostFile(),
        multiple=True,
        metavar="HOST=FILE",
        help="CA of an update server. May be repeated.",
    ),
)


def update_options(flags: dict[str, Any]) -> UpdateOptions | None:
    """What the flags say; None if update plans do nothing here. Raises StartError."""
    mode, pods = flags["mode"], not flags["no_pods"] and flags["mode"] != "controller"
    if mode == "worker" and pods and not flags["update_profile"]:
        unused = [name for name in ("trusted_keys", "download_authorities", "download_tokens") if flags[name]]
        if unused or flags["payloads"] != "any":
            raise StartError("--payloads, --trusted-keys and --download-* need --update-profile")
        return None
    # Imported here: a node that plans don't update stays small.
    from pilothouse.app.node_updates import UpdateOptions, download_settings, load_profile

    return UpdateOptions(
        profile=load_profile(flags["update_profile"], mode, flags["api_port"]),
        mode=mode,
        pods=pods,
        downloads=download_settings(
            flags["payloads"],
            flags["trusted_keys"],
            dict(flags["download_authorities"]),
            dict(flags["download_tokens"]),
            flags["max_download_size"],
        ),
        api_port=flags["api_port"],
    )


def plane_update_argv(flags: dict[str, Any]) -> list[str]:
    """The same flags, checked, for the node of a whole control plane. Raises StartError."""
    mode = "controller+worker" if flags["update_profile"] else "worker"
    options = update_options({**flags, "mode": mode, "no_pods": False, "api_port": 0})
    if options is None:
        return []
    if options.profile.tree is not None:
        raise StartError(
            f"--update-profile {flags['update_profile']}: `up` can't replace what it is a part of; run "
            "`pilothouse node --no-pods` with this profile beside it"
        )
    from pilothouse.node.updating.update_profile import K0S

    profile = flags["update_profile"]
    argv = [
        f"--mode={mode}",
        f"--update-profile={profile if profile == K0S else Path(profile).absolute()}",
        f"--payloads={flags['payloads']}",
        f"--max-download-size={flags['max_download_size']}",
    ]
    if flags["trusted_keys"] is not None:
        argv.append(f"--trusted-keys={flags['trusted_keys'].absolute()}")
    for flag, files in (("ca", flags["download_authorities"]), ("token", flags["download_tokens"])):
        argv += [f"--download-{flag}={host}={file.absolute()}" for host, file in files]
    return argv


def checked_authorities(flags: dict[str, Any]) -> dict[str, Path]:
    """The CAs of update servers, by host. Raises StartError if one can't be read."""
    authorities = dict(flags["update_authorities"])
    for file in authorities.values():
        read_file(file)
    return authorities


def update_server_argv(flags: dict[str, Any]) -> list[str]:
    """The flags of update servers, checked, for the manager of a whole control plane. Raises StartError."""
    prober = flags["update_prober"]
    authorities = checked_authorities(flags).items()
    return [
        *([f"--update-prober={prober}"] if prober else []),
        *(f"--update-server-ca={host}={file.absolute()}" for host, file in authorities),
    ]
