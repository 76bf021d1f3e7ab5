"""Content negotiation: media type, transform, layout of a response.

    form = negotiate(request, AnswerEndpoint.OBJECT)
    form.transform     # "", TABLE or PARTIAL
    form.write(body)   # JSON bytes as requested: compact, pretty, or YAML

Clauses of ``Accept`` are tried by quality, then in order; unsupported ones (protobuf, a transform that the
endpoint lacks) are skipped, as in Kubernetes. Results are cached by the raw header.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import msgspec

from pilothouse.apiserver.server import yaml_encoding
from pilothouse.apiserver.server.messages import JSON, Request
from pilothouse.meta import errors

YAML = "application/yaml"
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
_GROUP, _VERSION = "meta.k8s.io", "v1"
_LONGEST = 4096


class AnswerEndpoint(Enum):
    OBJECT = "object"
    LIST = "list"
    WATCH = "watch"
    REVIEW = "review"
    """A question that is answered: there are no columns to show."""
    PLAIN = "plain"
    """Something that is not an object of a kind: no transforms."""


_TRANSFORMS = {
    AnswerEndpoint.OBJECT: frozenset({TABLE, PARTIAL}),
    AnswerEndpoint.LIST: frozenset({TABLE, PARTIAL_LIST}),
    AnswerEndpoint.WATCH: frozenset({TABLE, PARTIAL}),
    AnswerEndpoint.REVIEW: frozenset({PARTIAL}),
    AnswerEndpoint.PLAIN: frozenset[str](),
}


class AnswerForm(msgspec.Struct, frozen=True):
    media: str = JSON
    transform: str = ""
    pretty: bool = False

    @property
    def bare(self) -> bool:
        """Whether JSON bytes are sent unchanged."""
        return self.media is JSON and not self.pretty

    def write(self, body: bytes) -> bytes:
        """JSON bytes, indented or as YAML."""
        if self.media == YAML:
            return yaml_encoding.write(body)
        return msgspec.json.format(body, indent=2) + b"\n" if self.pretty else body


BARE = AnswerForm()


class _Clause(msgspec.Struct, frozen=True):
    media: str
    params: dict[str, str]
    quality: float


def negotiate(request: Request, endpoint: AnswerEndpoint) -> AnswerForm:
    """The form of the response, or 406."""
    headers = request.headers
    accept = headers.get("Accept", "")
    form = BARE if not accept or accept == JSON else accepted(accept, endpoint)
    if is_pretty(request):
        return msgspec.structs.replace(form, pretty=True)
    return form


def is_pretty(request: Request) -> bool:
    """Whether a person reads it: by parameter, or by a browser's or shell tool's user agent."""
    if "pretty" in request.query:
        wish = request.params().get("pretty")
        if wish is not None:
            return wish.lower() not in ("false", "0")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


@lru_cache(maxsize=1024)
def accepted(accept: str, endpoint: AnswerEndpoint) -> AnswerForm:
    """The first clause of an ``Accept`` header that can be served."""
    streams = endpoint is AnswerEndpoint.WATCH
    for clause in clauses(accept):
        if clause.media in (JSON, "*/*", "application/*"):
            media = JSON
        elif clause.media in (YAML, "application/x-yaml") and not streams:
            media = YAML
        else:
            continue
        transform = clause.params.get("as", "")
        known = clause.params.get("g", "") == _GROUP and clause.params.get("v", "") == _VERSION
        if transform and not (known and transform in _TRANSFORMS[endpoint]):
            continue
        return AnswerForm(media, transform, clause.params.get("pretty", "") in ("1", "true"))
    raise errors.not_acceptable([JSON] if streams else [JSON, YAML])


def clauses(accept: str) -> list[_Clause]:
    """The clauses of an ``Accept`` header, best first; those with quality zero are left out."""
    found = []
    for text in accept[:_LONGEST].split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        if not media:
            continue
        params = {}
        for part in rest:
            name, _, value = part.partition("=")
            params[name.strip().lower()] = value.strip().strip('"')
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if quality > 0:
            found.append(_Clause(media.lower(), params, quality))
    return sorted(found, key=lambda clause: -clause.quality)
