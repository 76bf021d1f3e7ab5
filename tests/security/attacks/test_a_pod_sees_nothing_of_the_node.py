"""What a pod can see: the machine's programs, and what its manifest names."""

from __future__ import annotations

from tests.security.attacks.conftest import Gotten


def test_the_administrators_key_and_all_other_files_of_the_node_can_not_be_read(loot: Gotten) -> None:
    assert loot("files_of_the_node_by_path") == {}


def test_folders_of_the_node_and_its_tiers_can_not_be_listed(loot: Gotten) -> None:
    assert loot("folders_of_the_node_listed") == {}


def test_a_search_finds_no_keys_and_nothing_of_other_pods(loot: Gotten) -> None:
    assert loot("secrets_found_by_search") == {}


def test_nothing_of_other_pods_or_shims_is_mounted(loot: Gotten) -> None:
    assert loot("mounts_of_others") == {}


def test_a_volume_does_not_lead_to_what_is_above_it(loot: Gotten) -> None:
    assert loot("files_above_a_mount") == {}


def test_a_guessed_inode_opens_no_file(loot: Gotten) -> None:
    assert loot("files_by_handle") == {}


def test_no_descriptor_of_the_node_is_left_open(loot: Gotten) -> None:
    assert loot("descriptors_left_open") == {}


def test_passwords_and_private_keys_of_the_machine_can_not_be_read(loot: Gotten) -> None:
    assert loot("secrets_of_the_machine") == {}


def test_homes_of_the_machine_are_not_there(loot: Gotten) -> None:
    assert loot("homes_of_the_machine") == {}


def test_programs_and_the_installation_can_not_be_written(loot: Gotten) -> None:
    assert loot("writes_into_programs") == {}


def test_shared_memory_is_its_own(loot: Gotten) -> None:
    assert loot("shared_memory_of_others") == {}


def test_secrets_in_var_run_are_its_own(loot: Gotten) -> None:
    assert loot("accounts_of_others") == {}


def test_sockets_of_agents_and_shims_do_not_answer(loot: Gotten) -> None:
    assert loot("sockets_of_the_node") == {}
