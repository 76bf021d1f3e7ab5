"""A name with a slash is never sent: a server would take it for the path of something else."""

from __future__ import annotations

import pytest

from pilothouse.api.kind_names import KindName, Namespace, Node, Secret
from pilothouse.meta.errors import StatusError


@pytest.mark.parametrize(
    ("noun", "namespace", "name"),
    [
        (Namespace, "", "b/secrets/s"),
        (Node, "", "vm/proxy/metrics"),
        (Secret, "a/secrets/b", "c"),
        (Node, "", "a/.."),
    ],
)
def test_a_name_with_a_slash_is_not_found(noun: KindName, namespace: str, name: str) -> None:
    with pytest.raises(StatusError) as refused:
        noun.path(namespace, name)
    assert (refused.value.code, refused.value.name) == (404, name)
