from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.sample_installation import SampleInstallation

from pilothouse.apiserver.server.messages import User


@pytest.fixture(scope="module")
def shop() -> Iterator[SampleInstallation]:
    """One installation for a module: what its tests try is refused, or harmless to the others."""
    with SampleInstallation() as made:
        yield made


@pytest.fixture(scope="module")
def pilot(shop: SampleInstallation) -> User:
    """A stolen token: that of the pod es-demo-0, whose account somebody has made all-powerful besides."""
    user = shop.pilot("shop", "es-demo-0")
    shop.grant_everything(user)
    return user
