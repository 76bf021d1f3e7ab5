"""System call filters: a seccomp profile, and the classic BPF program that the kernel runs before each system
call.

    compiled(RUNTIME_DEFAULT, "x86_64", ("CHOWN", "KILL"))                  # for `LaunchSpec.seccomp`
    compiled(parsed(Path("db.json").read_bytes()), "aarch64", ())

A profile is as in the OCI runtime specification and Docker: a default action, and rules for system calls,
with conditions on their arguments, capabilities and architecture. Unknown names are skipped.

The program finds a call's number by bisection, in some eight comparisons. A call of another architecture
(32-bit programs on x86_64) kills the process, one of the x32 ABI fails with ENOSYS. Where the default is an
error, so does a call that is newer than our tables: C libraries fall back to older calls only on ENOSYS.
"""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pilothouse.base.architectures import go_architecture
from pilothouse.supervise.syscalls import AUDIT_ARCHITECTURES, TABLES

_KILL_PROCESS: Final = 0x80000000
_KILL_THREAD: Final = 0x00000000
_TRAP: Final = 0x00030000
_ERRNO: Final = 0x00050000
_TRACE: Final = 0x7FF00000
_LOG: Final = 0x7FFC0000
ALLOW: Final = 0x7FFF0000

_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_JEQ, _JGT, _JGE = 0x15, 0x25, 0x35
_NR_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16
_X32_BIT: Final = 0x40000000
MOST_INSTRUCTIONS: Final = 4096
"""The kernel's limit."""

Action = Literal[
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_TRAP",
    "SCMP_ACT_TRACE",
    "SCMP_ACT_LOG",
]
Comparison = Literal[
    "SCMP_CMP_NE",
    "SCMP_CMP_LT",
    "SCMP_CMP_LE",
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_MASKED_EQ",
]


class ProfileError(ValueError):
    """An invalid profile; the message says what is right."""


class SeccompArgument(Struct, frozen=True, rename="camel"):
    """A condition on an argument. `SCMP_CMP_MASKED_EQ`: masked by `value`, equal to `value_two`."""

    index: int
    value: int
    op: Comparison
    value_two: int = 0
    is_int: bool = False
    """The kernel takes only its lower 32 bits, so only these are compared."""


class SeccompScope(Struct, frozen=True, rename="camel"):
    """Conditions on a rule."""

    caps: tuple[str, ...] = ()
    arches: tuple[str, ...] = ()
    min_kernel: str = ""


class SeccompRule(Struct, frozen=True, rename="camel"):
    """The action for some system calls."""

    action: Action
    names: tuple[str, ...] = ()
    name: str = ""
    args: tuple[SeccompArgument, ...] | None = None
    errno_ret: int | None = None
    includes: SeccompScope | None = None
    excludes: SeccompScope | None = None


class SeccompProfile(Struct, frozen=True, rename="camel"):
    default_action: Action
    syscalls: tuple[SeccompRule, ...] = ()
    default_errno_ret: int | None = None


def parsed(content: bytes) -> SeccompProfile:
    """Parse a JSON profile. Raises ``ProfileError``."""
    try:
        profile = msgspec.json.decode(content, type=SeccompProfile)
    except msgspec.DecodeError as problem:
        why = f"is no seccomp profile as the OCI runtime specification has it: {problem}"
        raise ProfileError(why) from None
    for rule in profile.syscalls:
        if len(rule.args or ()) > 6:
            raise ProfileError("has a rule with more than six arguments, which is what a system call has")
        for each in rule.args or ():
            if not 0 <= each.index <= 5:
                raise ProfileError(f"has an argument with index {each.index}; system calls have 0 to 5")
            if not (0 <= each.value < 2**64 and 0 <= each.value_two < 2**64):
                raise ProfileError("has a value that is not an unsigned 64-bit number")
    return profile


def compiled(
    profile: SeccompProfile, machine: str, capabilities: Collection[str], *, kernel: tuple[int, int] = (6, 0)
) -> bytes:
    """The filter for a program with these capabilities; empty for an unknown architecture. Raises
    ``ProfileError`` for a profile that is too long."""
    numbers = TABLES.get(machine)
    if numbers is None:
        return b""
    default = _returned(profile.default_action, profile.default_errno_ret)
    by_number = _by_number(profile, numbers, machine, capabilities, kernel)
    actions = {number: _decision(rules, default) for number, rules in by_number.items()}
    newest = max(numbers.values()) + 1
    beyond = _error(errno.ENOSYS) if default & 0xFFFF0000 == _ERRNO else default
    code: _Code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_JEQ, 1, 0, AUDIT_ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NR_AT),
    ]
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _error(errno.ENOSYS))]
    code += _bisected(list(_ranges(actions, default, newest, beyond)))
    if len(code) > MOST_INSTRUCTIONS:
        raise ProfileError(f"comes to {len(code)} instructions; the kernel takes {MOST_INSTRUCTIONS}")
    return b"".join(struct.pack("<HBBI", *each) for each in code)


def _by_number(
    profile: SeccompProfile,
    numbers: Mapping[str, int],
    machine: str,
    capabilities: Collection[str],
    kernel: tuple[int, int],
) -> dict[int, list[SeccompRule]]:
    found: dict[int, list[SeccompRule]] = {}
    for rule in profile.syscalls:
        if not _applies(rule, machine, capabilities, kernel):
            continue
        for name in (*rule.names, *((rule.name,) if rule.name else ())):
            if name in numbers:
                found.setdefault(numbers[name], []).append(rule)
    return found


def _applies(rule: SeccompRule, machine: str, capabilities: Collection[str], kernel: tuple[int, int]) -> bool:
    has = {f"CAP_{name}" for name in capabilities}
    if (scope := rule.includes) is not None:
        if scope.arches and go_architecture(machine) not in scope.arches:
            return False
        if scope.min_kernel and kernel < _version(scope.min_kernel):
            return False
        if not has.issuperset(scope.caps):
            return False
    if (scope := rule.excludes) is not None:
        if go_architecture(machine) in scope.arches or not has.isdisjoint(scope.caps):
            return False
        if scope.min_kernel and kernel >= _version(scope.min_kernel):
            return False
    return True


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        raise ProfileError(f"has a minKernel {text!r}; write it as in 4.8")
    return int(found[1]), int(found[2])


def _error(number: int) -> int:
    return _ERRNO | number & 0xFFFF


def _returned(action: Action, number: int | None) -> int:
    match action:
        case "SCMP_ACT_ALLOW":
            return ALLOW
        case "SCMP_ACT_ERRNO":
            return _error(errno.EPERM if number is None else number)
        case "SCMP_ACT_TRACE":
            return _TRACE | (errno.EPERM if number is None else number) & 0xFFFF
        case "SCMP_ACT_KILL_PROCESS":
            return _KILL_PROCESS
        case "SCMP_ACT_TRAP":
            return _TRAP
        case "SCMP_ACT_LOG":
            return _LOG
    return _KILL_THREAD


_Instruction = tuple[int, int, int, int]
_Code = list[_Instruction]
_PASS, _FAIL = -1, -2
"""Labels of jumps until distances are known: past the condition, past the rule."""


def _decision(rules: Sequence[SeccompRule], default: int) -> _Code:
    """The first rule whose conditions hold decides, else the default."""
    code: _Code = []
    for rule in rules:
        verdict: _Instruction = (_RETURN, 0, 0, _returned(rule.action, rule.errno_ret))
        if not rule.args:
            return [*code, verdict]
        body = [*(each for argument in rule.args for each in _condition(argument)), verdict]
        code += _resolved(body, _FAIL)
    # What conditions have loaded is of no use after this.
    return [*code, (_RETURN, 0, 0, default)]


def _condition(argument: SeccompArgument) -> _Code:
    """Falls through if the condition holds, and jumps to `_FAIL` if not."""
    at = _ARGS_AT + 8 * argument.index
    low, high = argument.value & 0xFFFFFFFF, argument.value >> 32
    load_low, load_high = (_LOAD, 0, 0, at), (_LOAD, 0, 0, at + 4)
    match argument.op:
        case "SCMP_CMP_MASKED_EQ":
            wanted = argument.value_two
            first = [load_high, (_AND, 0, 0, high), (_JEQ, 0, _FAIL, wanted >> 32)]
            second = [load_low, (_AND, 0, 0, low), (_JEQ, 0, _FAIL, wanted & 0xFFFFFFFF)]
        case "SCMP_CMP_EQ":
            first = [load_high, (_JEQ, 0, _FAIL, high)]
            second = [load_low, (_JEQ, 0, _FAIL, low)]
        case "SCMP_CMP_NE":
            first = [load_high, (_JEQ, 0, _PASS, high)]
            second = [load_low, (_JEQ, _FAIL, 0, low)]
        case "SCMP_CMP_GT" | "SCMP_CMP_GE":
            first = [load_high, (_JGT, _PASS, 0, high), (_JEQ, 0, _FAIL, high)]
            second = [load_low, (_JGT if argument.op == "SCMP_CMP_GT" else _JGE, 0, _FAIL, low)]
        case "SCMP_CMP_LT" | "SCMP_CMP_LE":
            first = [load_high, (_JGT, _FAIL, 0, high), (_JEQ, 0, _PASS, high)]
            second = [load_low, (_JGE if argument.op == "SCMP_CMP_LT" else _JGT, _FAIL, 0, low)]
    return _resolved(second if argument.is_int else first + second, _PASS)


def _resolved(code: _Code, label: int) -> _Code:
    """Resolve jumps to a label, which is the end of the code."""

    def distance(offset: int, at: int) -> int:
        return len(code) - at - 1 if offset == label else offset

    return [(op, distance(yes, at), distance(no, at), k) for at, (op, yes, no, k) in enumerate(code)]


def _ranges(
    actions: Mapping[int, _Code], default: int, newest: int, beyond: int
) -> Iterator[tuple[int, _Code]]:
    """The beginnings of ranges of numbers with the same decision."""
    before: _Code = []
    for number in range(newest):
        code = actions.get(number, [(_RETURN, 0, 0, default)])
        if code != before:
            yield number, code
        before = code
    yield newest, [(_RETURN, 0, 0, beyond)]


def _bisected(ranges: Sequence[tuple[int, _Code]]) -> _Code:
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _bisected(ranges[:middle]), _bisected(ranges[middle:])
    if len(below) <= 255:
        return [(_JGE, len(below), 0, ranges[middle][0]), *below, *above]
    return [(_JGE, 0, 1, ranges[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]


def instructions(program: bytes) -> Iterable[_Instruction]:
    """Opcode, offsets and constant of each instruction."""
    return struct.iter_unpack("<HBBI", program)
