"""``pilothouse backup`` and ``pilothouse restore``: everything into a file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError
from pilothouse.cli.parameters import FILE
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.store_flags import (
    check_store,
    data_flag,
    encryption_flag,
    etcd_flags,
    etcd_options,
    store_flag,
)
from pilothouse.cli.waiting import waiting_for
from pilothouse.store.factory import BACKENDS

if TYPE_CHECKING:
    from pilothouse.app.restored_identity import RestoredIdentity

_MIB = 1024 * 1024
_NO_VOLUMES = (
    "Volumes are not included: the data of databases stays on the disks of the nodes. Back it up with the "
    "databases' own tools."
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@server_flags
def backup(file: Path, kubeconfig: Path | None, data: Path | None) -> None:
    """Back up all objects of a running server, as of one moment, and its keys to FILE. Volumes are not
    included.

    The server keeps serving. FILE must not exist; it is complete and verified when it appears. Unless the
    server has encryption keys, anyone who can read FILE can impersonate any user: keep it as safe as the data
    folder.
    """
    from pilothouse.app.backup import save
    from pilothouse.client.single_request import RequestFailed
    from pilothouse.store.backup_file import BackupError

    reached = access(kubeconfig, data)
    try:
        with waiting_for(reached.url):
            saved = save(reached, file)
    except (BackupError, RequestFailed) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{file} can't be written: {problem.strerror or problem}") from None
    header = saved.header
    click.echo(
        f"{file}: {saved.entries} keys at revision {header.revision}, {saved.size / _MIB:.1f} MiB, verified"
    )
    click.echo(_NO_VOLUMES)
    if header.keys:
        names = ", ".join(header.keys)
        click.echo(
            "Secrets in it are encrypted, and so are the control plane's keys. To restore it, these keys "
            f"are needed: {names}."
        )
    else:
        click.echo(
            "Secrets in it are not encrypted, nor are the control plane's keys: anyone who can read it can "
            "impersonate any user."
        )


@click.command()
@click.argument("file", type=FILE)
@data_flag("New or empty folder to restore into (with SQLite).")
@store_flag(
    "Store to restore to, which need not be of the kind that the backup was taken from.", durable=True
)
@click.option(
    "--adopt-volumes",
    is_flag=True,
    help="Adopt the volumes of the control plane that was backed up, which must not run any more.",
)
@etcd_flags
@encryption_flag
def restore(
    file: Path, data: Path, store: Any, adopt_volumes: bool, encryption_key_file: Path | None, **flags: Any
) -> None:
    """Restore a control plane from the backup in FILE.

    With SQLite, a data folder; with etcd, keys in an etcd that has none below the prefix. Existing data
    is never overwritten. Start servers afterwards as usual, with the same --encryption-key-file as before.
    Clients that were connected to the old ones have to list everything again.

    It is another control plane: it neither mounts nor deletes volumes of the one that was backed up, unless
    it replaces that one (--adopt-volumes).
    """
    etcd = etcd_options(flags)
    check_store(store, etcd)
    import asyncio

    from pilothouse.app.restore import restore as run
    from pilothouse.app.stores import sealing_keys

    try:
        sealing = sealing_keys(encryption_key_file)
        restored = asyncio.run(run(file, data.absolute(), store, etcd, sealing, adopts_volumes=adopt_volumes))
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    header = restored.backup.header
    where = ", ".join(etcd.servers) if BACKENDS[store].shared else str(data)
    click.echo(
        f"{where}: {restored.backup.entries} keys as of {header.created} (revision {header.revision}), "
        "verified"
    )
    click.echo(_of_volumes(restored.identity))
    if not restored.keys:
        click.echo(
            "The backup holds no keys of the control plane: start servers with the same --*-file flags as "
            "before."
        )
    if header.keys:
        names = ", ".join(header.keys)
        click.echo(f"Secrets are encrypted; start servers with an --encryption-key-file that has: {names}.")


def _of_volumes(identity: RestoredIdentity) -> str:
    """What becomes of volumes, which were not in the backup."""
    from pilothouse.api.local_volumes import ADOPTS_VOLUMES_OF

    if identity.adopts:
        return (
            "Volumes were not in the backup: claims find theirs on the nodes' disks if these are still "
            "there, and take them "
            "over. They are found by their paths: those in the data folder of the original need a restore "
            "to that same folder. The control plane that the backup is of must not be started again."
        )
    return (
        "Volumes were not in the backup, and those on the nodes' disks stay with the control plane that it "
        "is of. If that one "
        "is gone for good: restore with --adopt-volumes to the same data folder, or, where this is that "
        "folder, once this one runs,\n  kubectl annotate namespace kube-system "
        f"{ADOPTS_VOLUMES_OF}={identity.original}"
    )
