from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Those whom trouble befalls say a great deal about it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
