"""``pilothouse certs``: list and renew certificates, and rotate the CA."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import CONTROL_PLANE
from pilothouse.cli.plane import plane_flag
from pilothouse.cli.store_flags import check_store, encryption_flag, etcd_flags, etcd_options, store_flag

if TYPE_CHECKING:
    from pilothouse.app.certificate_files import CertificateFile
    from pilothouse.app.data_folder import DataFolder

_NEXT = {
    "prepare": (
        "Within a minute every running server trusts both authorities, and has written both into its "
        "admin.kubeconfig.\n"
        "Distribute {trust} to all other clients, then run: pilothouse certs rotate-ca switch"
    ),
    "switch": (
        "Within a minute every running server has certificates of the new authority, and still accepts "
        "those of the old one.\n"
        "Reissue all client certificates, then run: pilothouse certs rotate-ca finish"
    ),
    "finish": "Within a minute no running server accepts certificates of the old authority.",
}


@click.group()
def certs() -> None:
    """List and renew the certificates of a data folder.

    A running server renews its own certificates 60 days before they expire. The CA that signs them is
    valid for ten years; `rotate-ca` replaces it in three steps.
    """


@certs.command("list")
@plane_flag(CONTROL_PLANE, "The data folder.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_(data: Path, output: str) -> None:
    """List certificates with their subjects, names and expiry."""
    from pilothouse.app.certificate_files import certificates

    now = _now()
    found = certificates(_folder(data), now)
    if output == "json":
        click.echo(json.dumps([_facts(each, now) for each in found], indent=2))
        return
    rows = [
        ("FILE", "SUBJECT", "ISSUER", "EXPIRES", "DAYS LEFT", "NAMES"),
        *(_row(each, now) for each in found),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[5]]).rstrip())


@certs.command()
@plane_flag(CONTROL_PLANE, "The data folder.")
def renew(data: Path) -> None:
    """Renew the server's and the administrator's certificates, whatever their age.

    A running server loads them within a minute.
    """
    from pilothouse.app.certificate_files import renew as run

    try:
        made = run(_folder(data), _now())
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"renewed: {', '.join(made) or 'nothing, there is no certificate yet'}")


@certs.command("rotate-ca")
@click.argument("step", type=click.Choice(["prepare", "switch", "finish"]))
@plane_flag(CONTROL_PLANE, "The data folder.")
@store_flag(
    "The servers' store. Servers on one etcd share their CA: one step there counts for all of them.",
    durable=True,
)
@etcd_flags
@encryption_flag
def rotate_ca(step: Any, data: Path, store: Any, encryption_key_file: Path | None, **flags: Any) -> None:
    """Rotate the CA in three steps, without locking clients out.

    \b
    prepare   create a new authority, and trust both
    switch    sign with the new one, and still trust both
    finish    trust the new one alone

    Clients need time between two steps; each step says what has to happen before the next.
    """
    etcd = etcd_options(flags)
    check_store(store, etcd)
    import asyncio

    from pilothouse.app.certificate_files import take_step
    from pilothouse.app.stores import sealing_keys

    folder = _folder(data)
    try:
        sealing = sealing_keys(encryption_key_file)
        there = asyncio.run(take_step(step, folder, store, etcd, sealing, _now()))
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"Done: {there.stage}.")
    trust = folder.pki / "ca.crt"
    click.echo(_NEXT[step].format(trust=f"both {trust} and {folder.pki / 'ca-next.crt'}"))


def _folder(data: Path) -> DataFolder:
    from pilothouse.app.data_folder import DataFolder

    if not (data / "format").exists():
        raise click.ClickException(f"{data} is not a data folder; name one with --data")
    try:
        return DataFolder.open(data.absolute())
    except StartError as problem:
        raise click.ClickException(str(problem)) from None


def _row(found: CertificateFile, now: datetime.datetime) -> tuple[str, str, str, str, str, str]:
    certificate = found.certificate
    if certificate is None:
        return found.file, found.problem, "", "", "", ""
    left = certificate.days_left(now)
    return (
        found.file,
        certificate.subject,
        "itself" if certificate.issuer == certificate.subject else certificate.issuer,
        f"{certificate.expires:%Y-%m-%d %H:%M}",
        "expired" if left < 0 else str(left),
        ",".join(certificate.names),
    )


def _facts(found: CertificateFile, now: datetime.datetime) -> dict[str, object]:
    certificate = found.certificate
    if certificate is None:
        return {"file": found.file, "problem": found.problem}
    return {
        "file": found.file,
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "names": list(certificate.names),
        "starts": certificate.starts.isoformat(),
        "expires": certificate.expires.isoformat(),
        "daysLeft": certificate.days_left(now),
        "authority": certificate.authority,
    }


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
