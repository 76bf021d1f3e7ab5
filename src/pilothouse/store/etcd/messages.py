"""The part of etcd's v3 messages that a store needs, as one table.

    RangeRequest(key=b"/a").SerializeToString()

Unused messages and fields are left out, which protobuf allows. The classes are made at import: no compiler,
no generated file, no tie to a protobuf version.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError as DecodeError  # type: ignore[import-untyped]

_TABLE = """
ResponseHeader        revision:3:int64
KeyValue              key:1:bytes create_revision:2:int64 mod_revision:3:int64 value:5:bytes lease:6:int64
Event                 type:1:int32 kv:2:KeyValue

RangeRequest          key:1:bytes range_end:2:bytes limit:3:int64 revision:4:int64 count_only:9:bool
RangeResponse         header:1:ResponseHeader kvs:2:KeyValue* more:3:bool count:4:int64
PutRequest            key:1:bytes value:2:bytes lease:3:int64
PutResponse           header:1:ResponseHeader
DeleteRangeRequest    key:1:bytes
DeleteRangeResponse   header:1:ResponseHeader deleted:2:int64
Compare               result:1:int32 target:2:int32 key:3:bytes mod_revision:6:int64
RequestOp             request_range:1:RangeRequest request_put:2:PutRequest \
                      request_delete_range:3:DeleteRangeRequest
ResponseOp            response_range:1:RangeResponse response_put:2:PutResponse \
                      response_delete_range:3:DeleteRangeResponse
TxnRequest            compare:1:Compare* success:2:RequestOp* failure:3:RequestOp*
TxnResponse           header:1:ResponseHeader succeeded:2:bool responses:3:ResponseOp*
CompactionRequest     revision:1:int64 physical:2:bool
CompactionResponse    header:1:ResponseHeader

WatchCreateRequest    key:1:bytes range_end:2:bytes start_revision:3:int64 progress_notify:4:bool \
                      watch_id:7:int64 fragment:8:bool
WatchCancelRequest    watch_id:1:int64
WatchProgressRequest
WatchRequest          create_request:1:WatchCreateRequest cancel_request:2:WatchCancelRequest \
                      progress_request:3:WatchProgressRequest
WatchResponse         header:1:ResponseHeader watch_id:2:int64 created:3:bool canceled:4:bool \
                      compact_revision:5:int64 cancel_reason:6:string fragment:7:bool events:11:Event*

LeaseGrantRequest     TTL:1:int64 ID:2:int64
LeaseGrantResponse    header:1:ResponseHeader ID:2:int64 TTL:3:int64 error:4:string

StatusRequest
StatusResponse        header:1:ResponseHeader version:2:string

AuthenticateRequest   name:1:string password:2:string
AuthenticateResponse  header:1:ResponseHeader token:2:string
"""

_SCALARS = {"int32": 5, "int64": 3, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE, _SINGULAR, _REPEATED = 11, 1, 3


def _load(table: str) -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="pilothouse/etcd", package="etcdserverpb", syntax="proto3")
    for line in filter(None, table.splitlines()):
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for field in fields:
            label, number, kind = field.split(":")
            entry = message.field.add(name=label, number=int(number))
            entry.label = _REPEATED if kind.endswith("*") else _SINGULAR
            kind = kind.rstrip("*")
            if kind in _SCALARS:
                entry.type = _SCALARS[kind]
            else:
                entry.type = _MESSAGE
                entry.type_name = f".etcdserverpb.{kind}"
    # A pool of our own: another library's idea of these names must not get in the way.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"etcdserverpb.{name}"))
        for name in (message.name for message in file.message_type)
    }


_classes = _load(_TABLE)

RangeRequest: Any = _classes["RangeRequest"]
RangeResponse: Any = _classes["RangeResponse"]
PutRequest: Any = _classes["PutRequest"]
DeleteRangeRequest: Any = _classes["DeleteRangeRequest"]
Compare: Any = _classes["Compare"]
RequestOp: Any = _classes["RequestOp"]
TxnRequest: Any = _classes["TxnRequest"]
TxnResponse: Any = _classes["TxnResponse"]
CompactionRequest: Any = _classes["CompactionRequest"]
CompactionResponse: Any = _classes["CompactionResponse"]
WatchCreateRequest: Any = _classes["WatchCreateRequest"]
WatchCancelRequest: Any = _classes["WatchCancelRequest"]
WatchProgressRequest: Any = _classes["WatchProgressRequest"]
WatchRequest: Any = _classes["WatchRequest"]
WatchResponse: Any = _classes["WatchResponse"]
LeaseGrantRequest: Any = _classes["LeaseGrantRequest"]
LeaseGrantResponse: Any = _classes["LeaseGrantResponse"]
StatusRequest: Any = _classes["StatusRequest"]
StatusResponse: Any = _classes["StatusResponse"]
AuthenticateRequest: Any = _classes["AuthenticateRequest"]
AuthenticateResponse: Any = _classes["AuthenticateResponse"]

MOD_REVISION = 2
"""The target of a Compare: the key's last revision. Its result 0 asks for equality."""

DELETE = 1
"""The type of an Event that removes its key; 0 puts."""
