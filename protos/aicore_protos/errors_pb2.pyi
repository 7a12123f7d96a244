import datetime

from aicore_protos import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorDetail(_message.Message):
    __slots__ = ("gen_ai", "app_function", "simulator")
    GEN_AI_FIELD_NUMBER: _ClassVar[int]
    APP_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    SIMULATOR_FIELD_NUMBER: _ClassVar[int]
    gen_ai: GenAiError
    app_function: AppFunctionError
    simulator: SimulatorError
    def __init__(self, gen_ai: _Optional[_Union[GenAiError, _Mapping]] = ..., app_function: _Optional[_Union[AppFunctionError, _Mapping]] = ..., simulator: _Optional[_Union[SimulatorError, _Mapping]] = ...) -> None: ...

class GenAiError(_message.Message):
    __slots__ = ("error_code", "message", "retry_delay", "error_type")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    message: str
    retry_delay: _duration_pb2.Duration
    error_type: int
    def __init__(self, error_code: _Optional[int] = ..., message: _Optional[str] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., error_type: _Optional[int] = ...) -> None: ...

class AppFunctionError(_message.Message):
    __slots__ = ("error_code", "error_message", "extras")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    extras: _types_pb2.ObjectValue
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., extras: _Optional[_Union[_types_pb2.ObjectValue, _Mapping]] = ...) -> None: ...

class SimulatorError(_message.Message):
    __slots__ = ("kind", "message")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[SimulatorError.Kind]
        UNAUTHENTICATED: _ClassVar[SimulatorError.Kind]
        FORBIDDEN: _ClassVar[SimulatorError.Kind]
        INVALID_REQUEST: _ClassVar[SimulatorError.Kind]
        UNIMPLEMENTED: _ClassVar[SimulatorError.Kind]
        NOT_FOUND: _ClassVar[SimulatorError.Kind]
        ALREADY_EXISTS: _ClassVar[SimulatorError.Kind]
        INTERNAL: _ClassVar[SimulatorError.Kind]
        MESSAGE_TOO_LARGE: _ClassVar[SimulatorError.Kind]
        SCRIPT_DRIFT: _ClassVar[SimulatorError.Kind]
        NO_SUCH_METHOD: _ClassVar[SimulatorError.Kind]
        ILLEGAL_ARGUMENT: _ClassVar[SimulatorError.Kind]
        ILLEGAL_STATE: _ClassVar[SimulatorError.Kind]
        OPERATION_CANCELED: _ClassVar[SimulatorError.Kind]
        REPLAY_DRIFT: _ClassVar[SimulatorError.Kind]
    KIND_UNSPECIFIED: SimulatorError.Kind
    UNAUTHENTICATED: SimulatorError.Kind
    FORBIDDEN: SimulatorError.Kind
    INVALID_REQUEST: SimulatorError.Kind
    UNIMPLEMENTED: SimulatorError.Kind
    NOT_FOUND: SimulatorError.Kind
    ALREADY_EXISTS: SimulatorError.Kind
    INTERNAL: SimulatorError.Kind
    MESSAGE_TOO_LARGE: SimulatorError.Kind
    SCRIPT_DRIFT: SimulatorError.Kind
    NO_SUCH_METHOD: SimulatorError.Kind
    ILLEGAL_ARGUMENT: SimulatorError.Kind
    ILLEGAL_STATE: SimulatorError.Kind
    OPERATION_CANCELED: SimulatorError.Kind
    REPLAY_DRIFT: SimulatorError.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: SimulatorError.Kind
    message: str
    def __init__(self, kind: _Optional[_Union[SimulatorError.Kind, str]] = ..., message: _Optional[str] = ...) -> None: ...
