"""``pilothouse image``: bring images to this machine, see which there are, and take them away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import NODE, runs_on
from pilothouse.cli.plane import plane_flag

if TYPE_CHECKING:
    from pilothouse.node.images.image_store import ImageRecord, ImageStore

_PLAIN_FOLDERS = frozenset({"", "bin", "etc", "lib", "opt", "sbin", "share", "usr"})
"""What an image may well have alone at its top."""
_DATA = "Data folder of the node, or of `pilothouse up`."


@click.group()
def image() -> None:
    """Manage the images on this machine.

    Nodes do not pull images from registries: an image is an archive or a folder that is imported here under
    the name that pods use for it. Programs that are installed on the machine need no import: a pod names them
    as host/PROGRAM.
    """


@image.command("import")
@click.argument("name", metavar="NAME:TAG")
@click.argument("source", metavar="FILE|DIR", type=click.Path(exists=True, path_type=Path))
@plane_flag(NODE, _DATA)
@click.option(
    "--entrypoint",
    multiple=True,
    metavar="WORD",
    help="The program and its fixed arguments; one word per flag.",
)
@click.option(
    "--cmd",
    multiple=True,
    metavar="WORD",
    help="Arguments of the program unless a pod sets args; one word per flag.",
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Environment variable of the program.")
@click.option("--user", default="", metavar="UID[:GID]", help="User of the program, unless a pod sets one.")
@click.option("--working-dir", default="", metavar="PATH", help="Working directory of the program.")
@click.option(
    "--mount-at",
    default="",
    metavar="PATH",
    help="Where pods see the files. Default: as image.json says, or /opt/NAME.",
)
@click.option(
    "--strip-components",
    "strip",
    type=click.IntRange(0),
    default=0,
    help="Strip this number of leading folders, as tar does.",
)
def import_(
    name: str,
    source: Path,
    data: Path,
    entrypoint: tuple[str, ...],
    cmd: tuple[str, ...],
    env: tuple[str, ...],
    user: str,
    working_dir: str,
    mount_at: str,
    strip: int,
) -> None:
    """Import an archive (.tar, .tar.gz, .tar.xz, .zip) or a folder as the image NAME:TAG.

    The image may have a file image.json with its settings at its top; the flags override it. An image of the
    same name is replaced; running containers keep the files that they have.
    """
    from pilothouse.node.images.image_manifest import ImageManifest, ManifestError
    from pilothouse.node.images.image_references import ImageReferenceError
    from pilothouse.node.images.image_store import ImageStoreError
    from pilothouse.node.images.unpacking import UnpackError

    variables = {}
    for one in env:
        variable, equals, value = one.partition("=")
        if not equals or not variable:
            raise click.BadParameter(f"{one!r} is not NAME=VALUE", param_hint="--env")
        variables[variable] = value
    given = ImageManifest(entrypoint, cmd, variables, user, working_dir, mount_at)
    try:
        library = _library(data)
        record = library.import_(name, source, given, strip=strip)
    except (ImageStoreError, ManifestError, ImageReferenceError, UnpackError) as problem:
        raise click.ClickException(f"{source} was not imported: {problem}") from None
    except OSError as problem:
        raise click.ClickException(
            f"{source} was not imported: {problem.filename or data}: {problem.strerror or problem}"
        ) from None
    click.echo(_imported(record))
    if source.is_file() and not strip and (folder := library.only_folder(record)) not in _PLAIN_FOLDERS:
        click.echo(
            f"all files are in the folder {folder}, which pods see at {record.manifest.mount_at}/{folder}; "
            f"to have them at {record.manifest.mount_at}, import again with --strip-components 1",
            err=True,
        )
    _warn_if_unused(data)


@image.command()
@click.argument("target", metavar="OUT.tar.gz", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("names", metavar="NAME:TAG...", nargs=-1, required=True)
@plane_flag(NODE, _DATA)
def bundle(target: Path, names: tuple[str, ...], data: Path) -> None:
    """Pack images of this machine into one file, for machines without a network.

    There, `pilothouse image import-bundle` imports it. The same images make the same file, byte for byte,
    with the same zlib.
    """
    from pilothouse.node.images.airgap_bundles import write_bundle
    from pilothouse.node.images.image_references import ImageReferenceError
    from pilothouse.node.images.image_store import ImageStoreError
    from pilothouse.node.interfaces import ImageMissing

    try:
        index = write_bundle(target, names, _library(data))
    except (ImageStoreError, ImageReferenceError, ImageMissing) as problem:
        raise click.ClickException(f"{target} was not written: {problem}") from None
    except OSError as problem:
        raise click.ClickException(
            f"{target} was not written: {problem.filename or target}: {problem.strerror or problem}"
        ) from None
    for listed in index.images:
        click.echo(f"packed {listed.name}: {listed.digest}")
    number = "1 image" if len(index.images) == 1 else f"{len(index.images)} images"
    click.echo(f"{target}: {number}, {_size(target.stat().st_size)}")


@image.command("import-bundle")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@plane_flag(NODE, _DATA)
@click.option("--replace", is_flag=True, help="Replace images that have the same names.")
def import_bundle(source: Path, data: Path, replace: bool) -> None:
    """Import the images of a file that `pilothouse image bundle` has written.

    Images that exist already are skipped. If there is another image of the same name, nothing is imported,
    unless --replace is given; running containers keep the files that they have.
    """
    from pilothouse.node.images.airgap_bundles import import_bundle as bring
    from pilothouse.node.images.image_store import ImageStoreError
    from pilothouse.node.images.unpacking import UnpackError
    from pilothouse.node.interfaces import ImageMissing

    brought = 0
    try:
        for name, record in bring(source, _library(data), replace=replace):
            brought += record is not None
            click.echo(_imported(record) if record else f"{name} already exists")
    except (ImageStoreError, UnpackError, ImageMissing) as problem:
        raise click.ClickException(_broken_off(source, brought, str(problem))) from None
    except OSError as problem:
        why = f"{problem.filename or data}: {problem.strerror or problem}"
        raise click.ClickException(_broken_off(source, brought, why)) from None
    _warn_if_unused(data)


@image.command("list")
@plane_flag(NODE, _DATA)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_(data: Path, output: str) -> None:
    """List the images on this machine."""
    import msgspec

    from pilothouse.node.interfaces import ImageMissing

    try:
        records = _library(data).list()
    except ImageMissing as problem:
        raise click.ClickException(str(problem)) from None
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(records), indent=2))
        return
    rows = [("NAME", "SIZE", "FILES", "IMPORTED", "SEEN AT", "DIGEST"), *map(_row, records)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[5]]).rstrip())


@image.command()
@click.argument("name", metavar="NAME:TAG")
@plane_flag(NODE, _DATA)
def remove(name: str, data: Path) -> None:
    """Remove an image. Refused while a container uses it."""
    from pilothouse.node.images.image_references import ImageReferenceError
    from pilothouse.node.images.image_store import ImageStoreError

    try:
        record = _library(data).remove(name)
    except (ImageStoreError, ImageReferenceError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(
            f"{name} was not removed: {problem.filename or data}: {problem.strerror or problem}"
        ) from None
    click.echo(f"removed {record.name}")


def _library(data: Path) -> ImageStore:
    from pilothouse.base.clock import SystemClock
    from pilothouse.node.images.image_store import ImageStore

    return ImageStore(data / "node" / "images", SystemClock())


def _warn_if_unused(data: Path) -> None:
    """An image in a folder that no node uses helps no pod."""
    from pilothouse.app import up_state

    if runs_on(data, NODE):
        return
    try:
        if up_state.holder(data) is not None:
            return
    except StartError:
        return
    click.echo(
        f"Warning: no node is running on {data}; pods can use the image once one is (`pilothouse up --data "
        f"{data}`)",
        err=True,
    )


def _imported(record: ImageRecord) -> str:
    return (
        f"imported {record.name}: {record.entries} files, {_size(record.size)}, seen by pods at "
        f"{record.manifest.mount_at}"
    )


def _broken_off(source: Path, brought: int, why: str) -> str:
    so_far = "only the images above were" if brought else "none of its images was"
    return f"{source} was not imported ({so_far}): {why}"


def _row(record: ImageRecord) -> tuple[str, ...]:
    said = record.manifest
    return (
        record.name,
        _size(record.size),
        str(record.entries),
        record.imported,
        said.mount_at,
        record.digest[:19],
    )


def _size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
