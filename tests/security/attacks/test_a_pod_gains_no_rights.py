"""What a pod can become: nothing that it is not when it starts."""

from __future__ import annotations

from tests.security.attacks.conftest import Gotten


def test_every_pod_has_a_filter_of_system_calls(loot: Gotten) -> None:
    assert loot("a_system_call_filter_is_missing") == {}


def test_no_program_can_have_new_privileges(loot: Gotten) -> None:
    assert loot("new_privileges_can_be_had") == {}


def test_its_users_are_nobody_on_the_machine(loot: Gotten) -> None:
    assert loot("ids_of_the_machine") == {}


def test_capabilities_are_those_of_container_runtimes_at_most(loot: Gotten) -> None:
    assert loot("capabilities_beyond_the_default") == {}


def test_capabilities_can_not_be_raised(loot: Gotten) -> None:
    assert loot("capabilities_raised") == {}


def test_set_user_id_programs_of_the_machine_are_without_effect(loot: Gotten) -> None:
    assert loot("set_user_id_programs") == {}


def test_a_set_user_id_copy_from_a_root_container_gives_no_root(loot: Gotten) -> None:
    assert loot("root_by_a_smuggled_program") == {}


def test_a_copy_with_file_capabilities_gives_none(loot: Gotten) -> None:
    assert loot("capabilities_by_a_smuggled_program") == {}


def test_su_with_rules_from_a_config_map_gives_no_root(loot: Gotten) -> None:
    assert loot("root_by_su") == {}


def test_who_is_not_root_can_not_change_to_it(loot: Gotten) -> None:
    assert loot("root_by_setuid") == {}


def test_no_user_namespace_can_be_made(loot: Gotten) -> None:
    assert loot("user_namespaces") == {}


def test_nothing_can_be_mounted(loot: Gotten) -> None:
    assert loot("mounts_made") == {}


def test_nothing_read_only_becomes_writable_and_no_mask_comes_off(loot: Gotten) -> None:
    assert loot("mounts_changed") == {}


def test_there_is_no_other_root(loot: Gotten) -> None:
    assert loot("another_root") == {}


def test_a_chroot_is_no_way_out(loot: Gotten) -> None:
    assert loot("out_of_a_chroot") == {}


def test_the_host_name_can_not_be_changed(loot: Gotten) -> None:
    assert loot("the_machine_renamed") == {}


def test_limits_can_not_be_raised_nor_left(loot: Gotten) -> None:
    assert loot("limits_raised") == {}


def test_a_fork_bomb_has_a_limit(loot: Gotten) -> None:
    assert loot("more_processes_than_the_limit") == {}
