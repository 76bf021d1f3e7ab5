"""``pilothouse install-service``: have systemd run the control plane, or the node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import pilothouse
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.node import node
from pilothouse.cli.up import up

_SYSTEMD = Path("/run/systemd/system")
"""Exists if, and only if, systemd runs the machine."""
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.@]*")


@click.command("install-service", context_settings={"ignore_unknown_options": True})
@click.argument("role", type=click.Choice(["up", "node"]))
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[-- FLAG...]")
@click.option("--name", default="pilothouse", show_default=True, help="Name of the service.")
@click.option(
    "--user", is_flag=True, help="Install a user service, which needs no root, instead of a system service."
)
@click.option("--dry-run", is_flag=True, help="Print the unit, and change nothing.")
@click.option("--no-start", is_flag=True, help="Enable it without starting it.")
def install_service(
    role: Any, flags: tuple[str, ...], name: str, user: bool, dry_run: bool, no_start: bool
) -> None:
    """Write a systemd unit that runs `pilothouse up` or `pilothouse node`, enable it and start it.

    pilothouse install-service up -- --listen 0.0.0.0:6443

    Flags after -- are passed to the command that the service runs. Join the machine first, with `pilothouse
    join --no-run`. An existing unit is replaced.
    """
    from pilothouse.app.service_unit import service_unit, unit_file

    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not a valid name of a service", param_hint="--name")
    if os.geteuid() != 0 and not user and not dry_run:
        raise click.UsageError(
            "only root can install a system service; --user installs a user service, --dry-run prints the "
            "unit"
        )
    command = [*_program(), role, *_checked(role, flags)]
    try:
        unit = service_unit(role, command, user=user)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    if not user:
        _warn_of_others()
    if dry_run:
        click.echo(unit, nl=False)
        return
    if not _SYSTEMD.is_dir():
        raise click.ClickException(
            f"systemd does not run on this machine (there is no {_SYSTEMD}), so nothing was installed; "
            "--dry-run prints the unit, whose ExecStart another service manager can run"
        )
    file = unit_file(name, user=user, config_home=os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(unit)
        file.chmod(0o644)
    except OSError as problem:
        raise click.ClickException(f"{file} can't be written: {problem.strerror}") from None
    click.echo(f"wrote {file}")
    _systemctl(user, "daemon-reload")
    _systemctl(user, "enable", *([] if no_start else ["--now"]), f"{name}.service")
    scope = " --user" if user else ""
    click.echo(f"{'enabled' if no_start else 'started'} {name}; `systemctl{scope} status {name}` shows it,")
    click.echo(f"`journalctl{scope} -u {name}` shows its log; to remove it:")
    click.echo(f"  systemctl{scope} disable --now {name} && rm {file}")
    if user:
        click.echo("It runs while you are logged in; to have it run from boot on: loginctl enable-linger")


def _checked(role: str, flags: tuple[str, ...]) -> list[str]:
    """The flags, as the command itself understands them, with the data folder among them."""
    target = {"up": up, "node": node}[role]
    # As the command would be run, but for running it: what is wrong with a flag is said here, by its own
    # words.
    params = target.make_context(role, list(flags)).params
    data = Path(params["data"]).absolute()
    flag_of = {each.name: each.opts[0] for each in target.params}
    for name, path in _files(params):
        if not path.is_absolute() and name != "data":
            raise click.UsageError(f"{flag_of[name]} {path}: in a service, the path must be absolute")
    if role == "node" and not params["kubeconfig"] and not (data / "node.kubeconfig").exists():
        raise click.ClickException(
            f"there is no {data / 'node.kubeconfig'}: join first, with `pilothouse join --no-run --data "
            f"{data} TOKEN`"
        )
    given = any(flag == "--data" or flag.startswith("--data=") for flag in flags)
    return (
        [*flags] if given and Path(params["data"]).is_absolute() else ["--data", str(data), *_without(flags)]
    )


def _files(params: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """The files and folders in the values of flags."""
    from pilothouse.node.updating.update_profile import K0S, PILOTHOUSE

    if (profile := params["update_profile"]) not in ("", K0S, PILOTHOUSE):
        yield "update_profile", Path(profile)
    for name, value in params.items():
        for each in value if isinstance(value, tuple) else (value,):
            parts = each if isinstance(each, tuple) else (each,)
            yield from ((name, part) for part in parts if isinstance(part, Path))


def _without(flags: tuple[str, ...]) -> list[str]:
    """The flags but for ``--data``."""
    left = []
    words = iter(flags)
    for word in words:
        if word == "--data":
            next(words, None)
        elif not word.startswith("--data="):
            left.append(word)
    return left


def _program() -> list[str]:
    """The command that runs this program, from any folder; the launcher, if plans can update it."""
    from pilothouse.app.tree_installation import own_root

    if (root := own_root()) is not None:
        return [str(root / "bin" / "pilothouse")]
    called = Path(sys.argv[0]).absolute()
    if called.name != "__main__.py" and os.access(called, os.X_OK):
        return [str(called)]
    return [sys.executable, "-P", "-m", "pilothouse"]


def _warn_of_others() -> None:
    """Warn of a root service whose program other users can change."""
    from pilothouse.app.service_unit import changeable_by_others

    program = (Path(_program()[0]), Path(sys.executable), Path(pilothouse.__file__).parent)
    if found := changeable_by_others(dict.fromkeys(program)):
        listed = ", ".join(map(str, found))
        click.echo(
            escape_control_characters(
                f"Warning: root would run {listed}, which users other than root can change; install "
                "pilothouse where only root can write"
            ),
            err=True,
        )


def _systemctl(user: bool, *words: str) -> None:
    argv = ["systemctl", *(["--user"] if user else []), *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise click.ClickException(f"systemctl can't be run: {problem.strerror}") from None
    if done.returncode != 0:
        raise click.ClickException(
            f"`{' '.join(argv)}` failed: {escape_control_characters(done.stderr.strip())}"
        )
