"""``pilothouse updates``: publish versions to channels, and serve them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pilothouse.cli.long_running import log_to_stderr, run_fast, verbose_flag
from pilothouse.cli.parameters import FILE, Listen

if TYPE_CHECKING:
    from pilothouse.updates.publishing_keys import PublishingKeys

F = TypeVar("F", bound=Callable[..., Any])
_FOLDER = click.Path(file_okay=False, path_type=Path)


class PlatformFile(click.ParamType[tuple[str, Path]]):
    """``PLATFORM=FILE``; read as a pair of the two."""

    name = "platform=file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        if isinstance(value, tuple):
            return value
        platform, equals, file = value.partition("=")
        if not equals or not platform or not file:
            self.fail(f"{value!r}: write PLATFORM=FILE, as in linux-amd64=./k0s", param, ctx)
        return platform, Path(file)


def _dir_flag(command: F) -> F:
    return click.option("--dir", "folder", type=_FOLDER, required=True, help="Folder of the channels.")(
        command
    )


def _keys_flag(command: F) -> F:
    return click.option("--keys", type=_FOLDER, required=True, help="Folder of the keys.")(command)


@click.group()
def updates() -> None:
    """Publish versions for machines that update themselves, and serve them.

    A channel offers one version. UpdateConfigs follow channels; docs/update-server.md shows how.
    """


@updates.command()
@click.argument("keys", metavar="KEYS", type=_FOLDER)
def key(keys: Path) -> None:
    """Make the keys of a publisher, in the folder KEYS.

    KEYS/minisign.pub is for machines, which verify payloads with it. The other files are secret. root.pem
    is needed to begin a channel and to replace keys; keep it offline in between.
    """
    with _errors():
        from pilothouse.updates.publishing_keys import PAYLOAD_PUBLIC_KEY, PublishingKeys

        made = PublishingKeys.create(keys)
        click.echo(f"{made.folder / PAYLOAD_PUBLIC_KEY} is the public key of the payloads:")
        click.echo((made.folder / PAYLOAD_PUBLIC_KEY).read_text(), nl=False)


@updates.command()
@click.argument("channel", metavar="CHANNEL")
@click.argument("version", metavar="VERSION")
@click.argument("programs", metavar="PLATFORM=FILE…", nargs=-1, type=PlatformFile())
@_dir_flag
@_keys_flag
@click.option(
    "--bundle",
    "bundles",
    type=PlatformFile(),
    multiple=True,
    metavar="PLATFORM=FILE",
    help="A bundle of images for a platform. May be repeated.",
)
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="Address at which the folder is served. Without it, the index has addresses relative to itself, "
    "which k0s's own clients don't read.",
)
@click.option("--allow-older", is_flag=True, help="Publish a version older than the one that is offered.")
def publish(
    channel: str,
    version: str,
    programs: tuple[tuple[str, Path], ...],
    folder: Path,
    keys: Path,
    bundles: tuple[tuple[str, Path], ...],
    url: str,
    allow_older: bool,
) -> None:
    """Publish VERSION to CHANNEL: its program for each platform.

    Payloads are copied and signed; index.yaml and the TUF metadata are replaced last. A platform can be
    added to a published version later, but a published payload never changes.
    """
    with _errors():
        from pilothouse.updates import publishing

        before = publishing.offered_payloads(folder, channel)
        published = publishing.publish(
            folder,
            channel,
            version,
            dict(programs),
            _keys(keys),
            _now(),
            bundles=dict(bundles),
            url=url,
            allow_older=allow_older,
        )
        for one in published:
            click.echo(f"{one.platform}  {one.sha256}  {one.path}")
        click.echo(f"{channel} offers {version}")
        after = publishing.offered_payloads(folder, channel)
        if left_out := [one for one in before if one not in after]:
            click.echo(
                f"warning: {channel} offered {', '.join(left_out)} before, which {version} leaves out: such "
                f"machines find no update; publish {version} for them too",
                err=True,
            )


@updates.command()
@click.argument("channel", metavar="CHANNEL")
@_dir_flag
@_keys_flag
@click.option(
    "--new-keys",
    type=_FOLDER,
    help="Folder of keys that replace those of the channel, and sign its payloads.",
)
def sign(channel: str, folder: Path, keys: Path, new_keys: Path | None) -> None:
    """Sign the TUF metadata of CHANNEL again, before it expires.

    Clusters refuse expired metadata, since it may be held back on the way. The timestamp expires after
    a week: run this daily. With --new-keys the payloads are signed again, too.
    """
    with _errors():
        from pilothouse.updates import publishing
        from pilothouse.updates.publishing_keys import PAYLOAD_PUBLIC_KEY

        if new_keys is not None:
            publishing.rotate(folder, channel, _keys(keys), _keys(new_keys), _now())
            click.echo(f"{channel} has the keys of {new_keys}; clusters follow by themselves")
            public = new_keys / PAYLOAD_PUBLIC_KEY
            click.echo(f"its payloads are signed for {public}: machines need it in --trusted-keys")
            return
        roles = publishing.renew(folder, channel, _keys(keys), _now())
        click.echo(f"signed again: {', '.join(roles)}")
        for role, time in publishing.expiries(folder, channel, _keys(keys), _now()).items():
            click.echo(f"{role} expires at {time:%Y-%m-%dT%H:%M:%SZ}")


@updates.command()
@click.argument("channel", metavar="CHANNEL")
@_dir_flag
def root(channel: str, folder: Path) -> None:
    """Print the root metadata of CHANNEL, for spec.trustedRoot of an UpdateConfig."""
    with _errors():
        from pilothouse.updates import publishing

        click.echo(publishing.trusted_root(folder, channel))


@updates.command()
@click.argument("payload", metavar="PAYLOAD", type=FILE)
@click.option("--root", type=_FOLDER, required=True, help="Folder to install it in, such as /opt/pilothouse.")
def install(payload: Path, root: Path) -> None:
    """Install Pilothouse from PAYLOAD, so that update plans can update it.

    PAYLOAD is what `make payload` packs. ROOT/bin/pilothouse then runs the installed version; machines whose
    node runs by it with --update-profile pilothouse update themselves.
    """
    import asyncio

    from pilothouse.app.options import StartError
    from pilothouse.app.tree_installation import install as install_tree

    # Pods of other users run programs from there.
    os.umask(0o022)
    try:
        tree = asyncio.run(install_tree(payload.absolute(), root.absolute()))
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"installed {tree}; run it by {root / 'bin' / 'pilothouse'}")


@updates.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:8080",
    show_default=True,
    help="Address to serve at; port 0 takes a free one.",
)
@click.option("--token-file", type=FILE, help="File with the token that every request has to carry.")
@click.option("--tls-cert-file", type=FILE, help="Certificate, to serve https; needs --tls-private-key-file.")
@click.option("--tls-private-key-file", type=FILE, help="Key of the certificate.")
@verbose_flag("Log more: which clusters ask, and what they run.")
def serve(
    folder: Path,
    listen: tuple[str, int],
    token_file: Path | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    verbose: int,
) -> None:
    """Serve the channels in DIR to clusters and machines.

    With a token, /clusters lists which clusters asked, and what they run.
    """
    log_to_stderr(verbose)
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")

    from pilothouse.app.update_server import UpdateServerOptions, run

    options = UpdateServerOptions(
        folder=folder,
        listen=listen,
        token_file=token_file,
        certificate=tls_cert_file,
        key=tls_private_key_file,
    )
    run_fast(lambda: run(options, announce=click.echo))


def _keys(folder: Path) -> PublishingKeys:
    from pilothouse.updates.publishing_keys import PublishingKeys

    return PublishingKeys(folder)


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _errors() -> Iterator[None]:
    from pilothouse.updates.publishing_keys import PublishError

    try:
        yield
    except PublishError as problem:
        raise click.ClickException(str(problem)) from None
