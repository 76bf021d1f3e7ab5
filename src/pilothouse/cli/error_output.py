"""Errors between a command and a server, as messages of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def errors_in_one_line(server: str) -> Iterator[None]:
    """Turn what a client raises into an error of the command, which names the server once."""
    from pilothouse.client.access import AccessError
    from pilothouse.client.certificate_requests import CertificateDenied
    from pilothouse.client.transport import TransportError
    from pilothouse.meta.errors import StatusError

    try:
        yield
    except (AccessError, CertificateDenied) as problem:
        raise click.ClickException(str(problem)) from None
    except (TransportError, StatusError) as problem:
        said = str(problem)
        raise click.ClickException(said if server in said else f"{server}: {said}") from None
