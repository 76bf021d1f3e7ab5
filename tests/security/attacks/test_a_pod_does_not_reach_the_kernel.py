"""What a pod can ask the kernel for: what programs need, and nothing that concerns the whole machine."""

from __future__ import annotations

from tests.security.attacks.conftest import Gotten


def test_disks_and_memory_are_no_devices_of_a_pod(loot: Gotten) -> None:
    assert loot("devices") == {}


def test_calls_that_only_the_machine_needs_are_refused(loot: Gotten) -> None:
    assert loot("calls_that_only_the_machine_needs") == {}


def test_proc_and_sys_tell_nothing_of_the_machine(loot: Gotten) -> None:
    assert loot("parts_of_proc_and_sys_read") == {}


def test_settings_of_the_kernel_can_not_be_written(loot: Gotten) -> None:
    assert loot("parts_of_proc_and_sys_opened_for_writing") == {}


def test_packets_of_the_machine_can_not_be_heard(loot: Gotten) -> None:
    assert loot("packets_of_others") == {}


def test_nothing_can_be_typed_into_the_agents_terminal(loot: Gotten) -> None:
    assert loot("typed_into_the_agents_terminal") == {}
