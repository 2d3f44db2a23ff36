from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestMessage(_message.Message):
    __slots__ = ("resource_groups",)
    RESOURCE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    resource_groups: _containers.RepeatedCompositeFieldContainer[ResourceGroupMessage]
    def __init__(self, resource_groups: _Optional[_Iterable[_Union[ResourceGroupMessage, _Mapping]]] = ...) -> None: ...

class ResourceGroupMessage(_message.Message):
    __slots__ = ("resource", "scope_groups", "schema_url")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_URL_FIELD_NUMBER: _ClassVar[int]
    resource: _containers.RepeatedScalarFieldContainer[bytes]
    scope_groups: _containers.RepeatedCompositeFieldContainer[ScopeGroupMessage]
    schema_url: bytes
    def __init__(self, resource: _Optional[_Iterable[bytes]] = ..., scope_groups: _Optional[_Iterable[_Union[ScopeGroupMessage, _Mapping]]] = ..., schema_url: _Optional[bytes] = ...) -> None: ...

class ScopeGroupMessage(_message.Message):
    __slots__ = ("scope", "items", "schema_url")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_URL_FIELD_NUMBER: _ClassVar[int]
    scope: _containers.RepeatedScalarFieldContainer[bytes]
    items: _containers.RepeatedScalarFieldContainer[bytes]
    schema_url: bytes
    def __init__(self, scope: _Optional[_Iterable[bytes]] = ..., items: _Optional[_Iterable[bytes]] = ..., schema_url: _Optional[bytes] = ...) -> None: ...

class ResourceMessage(_message.Message):
    __slots__ = ("attributes",)
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.ScalarMap[str, bytes]
    def __init__(self, attributes: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class ScopeMessage(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    version: bytes
    def __init__(self, name: _Optional[bytes] = ..., version: _Optional[bytes] = ...) -> None: ...

class SpanMessage(_message.Message):
    __slots__ = ("trace_id", "span_id", "parent_span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano", "attributes", "dropped_attributes_count", "events", "dropped_events_count", "status", "flags")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    END_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_ATTRIBUTES_COUNT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_EVENTS_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    name: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: _containers.ScalarMap[str, bytes]
    dropped_attributes_count: int
    events: _containers.RepeatedScalarFieldContainer[bytes]
    dropped_events_count: int
    status: bytes
    flags: int
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., parent_span_id: _Optional[bytes] = ..., name: _Optional[bytes] = ..., kind: _Optional[int] = ..., start_time_unix_nano: _Optional[int] = ..., end_time_unix_nano: _Optional[int] = ..., attributes: _Optional[_Mapping[str, bytes]] = ..., dropped_attributes_count: _Optional[int] = ..., events: _Optional[_Iterable[bytes]] = ..., dropped_events_count: _Optional[int] = ..., status: _Optional[bytes] = ..., flags: _Optional[int] = ...) -> None: ...

class StatusMessage(_message.Message):
    __slots__ = ("message", "code")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    message: bytes
    code: int
    def __init__(self, message: _Optional[bytes] = ..., code: _Optional[int] = ...) -> None: ...

class EventMessage(_message.Message):
    __slots__ = ("time_unix_nano", "name", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    time_unix_nano: int
    name: bytes
    attributes: _containers.ScalarMap[str, bytes]
    def __init__(self, time_unix_nano: _Optional[int] = ..., name: _Optional[bytes] = ..., attributes: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class HeadMessage(_message.Message):
    __slots__ = ("trace_id", "span_id", "parent_span_id", "kind", "flags")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    kind: int
    flags: int
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., parent_span_id: _Optional[bytes] = ..., kind: _Optional[int] = ..., flags: _Optional[int] = ...) -> None: ...

class HeadsMessage(_message.Message):
    __slots__ = ("resource_groups",)
    RESOURCE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    resource_groups: _containers.RepeatedCompositeFieldContainer[HeadResourceGroupMessage]
    def __init__(self, resource_groups: _Optional[_Iterable[_Union[HeadResourceGroupMessage, _Mapping]]] = ...) -> None: ...

class HeadResourceGroupMessage(_message.Message):
    __slots__ = ("scope_groups",)
    SCOPE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    scope_groups: _containers.RepeatedCompositeFieldContainer[HeadGroupMessage]
    def __init__(self, scope_groups: _Optional[_Iterable[_Union[HeadGroupMessage, _Mapping]]] = ...) -> None: ...

class HeadGroupMessage(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[HeadMessage]
    def __init__(self, items: _Optional[_Iterable[_Union[HeadMessage, _Mapping]]] = ...) -> None: ...

class SpanAttributesMessage(_message.Message):
    __slots__ = ("attributes",)
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, attributes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LogRecordMessage(_message.Message):
    __slots__ = ("time_unix_nano", "body", "attributes", "trace_id", "span_id", "observed_time_unix_nano", "event_name")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    time_unix_nano: int
    body: _containers.RepeatedScalarFieldContainer[bytes]
    attributes: _containers.ScalarMap[str, bytes]
    trace_id: bytes
    span_id: bytes
    observed_time_unix_nano: int
    event_name: bytes
    def __init__(self, time_unix_nano: _Optional[int] = ..., body: _Optional[_Iterable[bytes]] = ..., attributes: _Optional[_Mapping[str, bytes]] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., observed_time_unix_nano: _Optional[int] = ..., event_name: _Optional[bytes] = ...) -> None: ...

class TraceStateMessage(_message.Message):
    __slots__ = ("trace_state",)
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    trace_state: bytes
    def __init__(self, trace_state: _Optional[bytes] = ...) -> None: ...

class SpanSignsMessage(_message.Message):
    __slots__ = ("trace_id", "span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    END_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    name: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., name: _Optional[bytes] = ..., kind: _Optional[int] = ..., start_time_unix_nano: _Optional[int] = ..., end_time_unix_nano: _Optional[int] = ...) -> None: ...

class ForeignToSpansMessage(_message.Message):
    __slots__ = ("time_unix_nano", "severity_number", "attributes", "sum", "flags", "span_id_or_exponential_histogram", "observed_time_unix_nano", "event_name_or_metadata")
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_OR_EXPONENTIAL_HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    EVENT_NAME_OR_METADATA_FIELD_NUMBER: _ClassVar[int]
    time_unix_nano: int
    severity_number: int
    attributes: bytes
    sum: bytes
    flags: int
    span_id_or_exponential_histogram: bytes
    observed_time_unix_nano: int
    event_name_or_metadata: bytes
    def __init__(self, time_unix_nano: _Optional[int] = ..., severity_number: _Optional[int] = ..., attributes: _Optional[bytes] = ..., sum: _Optional[bytes] = ..., flags: _Optional[int] = ..., span_id_or_exponential_histogram: _Optional[bytes] = ..., observed_time_unix_nano: _Optional[int] = ..., event_name_or_metadata: _Optional[bytes] = ...) -> None: ...

class ForeignToLogsMessage(_message.Message):
    __slots__ = ("trace_id_or_name", "span_id_or_description", "kind", "start_time_unix_nano", "end_time_unix_nano", "event_or_summary")
    TRACE_ID_OR_NAME_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_OR_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    END_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    EVENT_OR_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    trace_id_or_name: bytes
    span_id_or_description: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    event_or_summary: bytes
    def __init__(self, trace_id_or_name: _Optional[bytes] = ..., span_id_or_description: _Optional[bytes] = ..., kind: _Optional[int] = ..., start_time_unix_nano: _Optional[int] = ..., end_time_unix_nano: _Optional[int] = ..., event_or_summary: _Optional[bytes] = ...) -> None: ...

class ForeignToMetricsMessage(_message.Message):
    __slots__ = ("time_unix_nano", "severity_number", "start_time_unix_nano", "end_time_unix_nano", "observed_time_unix_nano")
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    END_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    time_unix_nano: int
    severity_number: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    observed_time_unix_nano: int
    def __init__(self, time_unix_nano: _Optional[int] = ..., severity_number: _Optional[int] = ..., start_time_unix_nano: _Optional[int] = ..., end_time_unix_nano: _Optional[int] = ..., observed_time_unix_nano: _Optional[int] = ...) -> None: ...

class AnyValueMessage(_message.Message):
    __slots__ = ("string_value", "bool_value", "int_value", "double_value", "array_value", "kvlist_value", "bytes_value")
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_VALUE_FIELD_NUMBER: _ClassVar[int]
    KVLIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    string_value: bytes
    bool_value: bool
    int_value: int
    double_value: float
    array_value: ArrayMessage
    kvlist_value: KeyValueListMessage
    bytes_value: bytes
    def __init__(self, string_value: _Optional[bytes] = ..., bool_value: bool = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., array_value: _Optional[_Union[ArrayMessage, _Mapping]] = ..., kvlist_value: _Optional[_Union[KeyValueListMessage, _Mapping]] = ..., bytes_value: _Optional[bytes] = ...) -> None: ...

class ArrayMessage(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[AnyValueMessage]
    def __init__(self, values: _Optional[_Iterable[_Union[AnyValueMessage, _Mapping]]] = ...) -> None: ...

class KeyValueListMessage(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[KeyValueMessage]
    def __init__(self, values: _Optional[_Iterable[_Union[KeyValueMessage, _Mapping]]] = ...) -> None: ...

class KeyValueMessage(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: AnyValueMessage
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[_Union[AnyValueMessage, _Mapping]] = ...) -> None: ...

class KeyMessage(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...
