"""A write's request is written out by hand; protobuf's own classes must read the same out of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd import transactions

keys = st.binary(max_size=200)
revisions = st.integers(min_value=-1, max_value=(1 << 63) - 1)


@given(
    st.lists(st.tuples(keys, revisions), min_size=1, max_size=2),
    keys,
    st.none() | st.tuples(st.binary(max_size=20_000), st.integers(min_value=0, max_value=(1 << 63) - 1)),
)
def test_a_write_on_conditions(
    expected: list[tuple[bytes, int]], key: bytes, value: tuple[bytes, int] | None
) -> None:
    if value is None:
        act = wire.RequestOp(request_delete_range=wire.DeleteRangeRequest(key=key))
        ours = transactions.delete(key)
    else:
        act = wire.RequestOp(request_put=wire.PutRequest(key=key, value=value[0], lease=value[1]))
        ours = transactions.put(key, *value)
    assert wire.TxnRequest.FromString(transactions.conditional(expected, ours)) == wire.TxnRequest(
        compare=[
            wire.Compare(target=wire.MOD_REVISION, key=name, mod_revision=revision)
            for name, revision in expected
        ],
        success=[act],
        failure=[wire.RequestOp(request_range=wire.RangeRequest(key=name)) for name, _ in expected],
    )
