"""The same attacks, by a program of the machine that nothing keeps in: an attack that gets nothing there would prove nothing here."""

from __future__ import annotations

import pytest
from tests.security.attacks.attacker import ATTACKS
from tests.security.attacks.conftest import Gotten

NOT_FOR_ROOT = {
    "root_by_a_smuggled_program",
    "capabilities_by_a_smuggled_program",
    "root_by_su",
    "root_by_setuid",
}
"""They take a pod whose containers have two users."""
NOT_HERE = {
    "capabilities_raised",  # Who has them all can't raise them.
    "accounts_of_others",
    "sockets_of_the_node",
    "mounts_of_others",
    "typed_into_the_agents_terminal",
    "more_processes_than_the_limit",
}
"""They look for what is there while pods run."""


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - NOT_FOR_ROOT - NOT_HERE))
def test_it_gets_something(unwalled_loot: Gotten, attack: str) -> None:
    assert unwalled_loot(attack) != {}


@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_it_is_not_broken(unwalled_loot: Gotten, attack: str) -> None:
    assert not [got for got in unwalled_loot(attack).get("program", []) if got.startswith("broken")]
