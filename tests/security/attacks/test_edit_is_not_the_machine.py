"""What a service account with `edit` in one namespace gets of the machine: nothing."""

from __future__ import annotations

import pytest
from tests.security.attacks.campaign import FORBIDDEN
from tests.security.attacks.conftest import Gotten


@pytest.mark.parametrize("asked", FORBIDDEN)
def test_a_pod_that_reaches_for_the_machine_is_refused(editors_loot: Gotten, asked: str) -> None:
    assert editors_loot(f"pods_with_{asked}") == {}


def test_a_set_makes_no_such_pod_either(editors_loot: Gotten) -> None:
    assert editors_loot("a_privileged_pod_by_a_set") == {}


def test_its_namespace_can_not_be_labelled(editors_loot: Gotten) -> None:
    assert editors_loot("labels_of_its_namespace") == {}


def test_it_gives_itself_no_rights(editors_loot: Gotten) -> None:
    assert editors_loot("rights_of_its_own_making") == {}
