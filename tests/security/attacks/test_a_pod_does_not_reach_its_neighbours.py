"""What a pod can reach of others on the same node: nothing but their ports."""

from __future__ import annotations

import ctypes

import pytest
from tests.security.attacks.conftest import Gotten


def test_processes_of_others_are_not_seen(loot: Gotten) -> None:
    assert loot("processes_of_others") == {}


def test_processes_of_others_can_not_be_signalled(loot: Gotten) -> None:
    assert loot("signals_to_others") == {}


def test_processes_of_others_can_not_be_traced(loot: Gotten) -> None:
    assert loot("memory_of_others") == {}


def test_keys_of_others_are_not_in_its_keyrings(loot: Gotten) -> None:
    assert loot("keys_of_others") == {}


def test_system_v_memory_of_others_is_not_there(loot: Gotten) -> None:
    assert loot("system_v_memory_of_others") == {}


def test_message_queues_of_others_are_not_there(loot: Gotten) -> None:
    assert loot("message_queues_of_others") == {}


def test_terminals_of_others_can_not_be_opened(loot: Gotten) -> None:
    assert loot("terminals_of_others") == {}


LANDLOCK_CREATE_RULESET, VERSION = 444, 1


def _scopes() -> bool:
    """Whether the kernel's Landlock can keep a process from abstract sockets of others."""
    version: int = ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION)
    return version >= 6


@pytest.mark.skipif(not _scopes(), reason="this kernel has no scopes for abstract sockets (Linux 6.12)")
def test_abstract_sockets_of_others_do_not_answer(loot: Gotten) -> None:
    assert loot("abstract_sockets_of_others") == {}
