"""``pilothouse crds``: our kinds as CustomResourceDefinitions, for Kubernetes' own API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.cli.parameters import FILE


@click.command()
@click.option(
    "--conversion-webhook",
    metavar="URL",
    default="",
    help="Serve all versions, with the conversion webhook at this https:// address. Default: the stored "
    "version alone.",
)
@click.option("--conversion-ca-file", type=FILE, help="CA of the webhook's certificate.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Output format.",
)
def crds(conversion_webhook: str, conversion_ca_file: Path | None, output: str) -> None:
    """Print the CustomResourceDefinitions of our kinds for a real kube-apiserver.

    pilothouse crds | kubectl apply -f -

    Pilothouse's own API server has these kinds built in.
    """
    if conversion_webhook and not conversion_webhook.startswith("https://"):
        raise click.UsageError(
            f"--conversion-webhook {conversion_webhook!r} is not an https:// address, which is all that "
            "Kubernetes takes"
        )
    if conversion_ca_file and not conversion_webhook:
        raise click.UsageError("--conversion-ca-file goes with --conversion-webhook")

    import msgspec

    from pilothouse.api.applications.registry import InvalidApplication
    from pilothouse.api.registry import own_resources
    from pilothouse.apiserver.server.yaml_encoding import write
    from pilothouse.meta.crd import crd_manifest, webhook_conversion

    conversion: dict[str, Any] | None = None
    if conversion_webhook:
        authority = conversion_ca_file.read_bytes() if conversion_ca_file else b""
        conversion = webhook_conversion(conversion_webhook, authority)
    try:
        resources = own_resources()
    except InvalidApplication as problem:
        raise click.ClickException(str(problem)) from None
    definitions = [
        crd_manifest(resource, versions="all", conversion=conversion)
        if conversion and len(resource.kinds) > 1
        else crd_manifest(resource)
        for resource in resources
    ]
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        click.echo(msgspec.json.format(msgspec.json.encode(listed)).decode())
        return
    for definition in definitions:
        click.echo("---\n" + write(msgspec.json.encode(definition)).decode(), nl=False)
