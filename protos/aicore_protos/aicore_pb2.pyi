from aicore_protos import errors_pb2 as _errors_pb2
from aicore_protos import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelReleaseStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STABLE: _ClassVar[ModelReleaseStage]
    PREVIEW: _ClassVar[ModelReleaseStage]

class ModelPreference(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_PREFERENCE_UNSPECIFIED: _ClassVar[ModelPreference]
    FAST: _ClassVar[ModelPreference]
    FULL: _ClassVar[ModelPreference]

class FeatureStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNAVAILABLE: _ClassVar[FeatureStatus]
    DOWNLOADABLE: _ClassVar[FeatureStatus]
    DOWNLOADING: _ClassVar[FeatureStatus]
    AVAILABLE: _ClassVar[FeatureStatus]

class Feature(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_UNSPECIFIED: _ClassVar[Feature]
    SYSTEM_PROMPT: _ClassVar[Feature]
    THINKING_MODE: _ClassVar[Feature]
    PREFIX_CACHING: _ClassVar[Feature]
    STRUCTURED_OUTPUT: _ClassVar[Feature]
    FUNCTION_CALLING: _ClassVar[Feature]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    USER: _ClassVar[Role]
    MODEL: _ClassVar[Role]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP: _ClassVar[FinishReason]
    MAX_TOKENS: _ClassVar[FinishReason]
    OTHER: _ClassVar[FinishReason]
STABLE: ModelReleaseStage
PREVIEW: ModelReleaseStage
MODEL_PREFERENCE_UNSPECIFIED: ModelPreference
FAST: ModelPreference
FULL: ModelPreference
UNAVAILABLE: FeatureStatus
DOWNLOADABLE: FeatureStatus
DOWNLOADING: FeatureStatus
AVAILABLE: FeatureStatus
FEATURE_UNSPECIFIED: Feature
SYSTEM_PROMPT: Feature
THINKING_MODE: Feature
PREFIX_CACHING: Feature
STRUCTURED_OUTPUT: Feature
FUNCTION_CALLING: Feature
USER: Role
MODEL: Role
STOP: FinishReason
MAX_TOKENS: FinishReason
OTHER: FinishReason

class ModelSelection(_message.Message):
    __slots__ = ("release_stage", "preference")
    RELEASE_STAGE_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    release_stage: ModelReleaseStage
    preference: ModelPreference
    def __init__(self, release_stage: _Optional[_Union[ModelReleaseStage, str]] = ..., preference: _Optional[_Union[ModelPreference, str]] = ...) -> None: ...

class CheckStatusRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ...) -> None: ...

class CheckStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: FeatureStatus
    def __init__(self, status: _Optional[_Union[FeatureStatus, str]] = ...) -> None: ...

class DownloadRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ...) -> None: ...

class DownloadResponse(_message.Message):
    __slots__ = ("started", "progress", "completed", "failed")
    class Started(_message.Message):
        __slots__ = ("bytes_to_download",)
        BYTES_TO_DOWNLOAD_FIELD_NUMBER: _ClassVar[int]
        bytes_to_download: int
        def __init__(self, bytes_to_download: _Optional[int] = ...) -> None: ...
    class Progress(_message.Message):
        __slots__ = ("total_bytes_downloaded",)
        TOTAL_BYTES_DOWNLOADED_FIELD_NUMBER: _ClassVar[int]
        total_bytes_downloaded: int
        def __init__(self, total_bytes_downloaded: _Optional[int] = ...) -> None: ...
    class Completed(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Failed(_message.Message):
        __slots__ = ("error",)
        ERROR_FIELD_NUMBER: _ClassVar[int]
        error: _errors_pb2.GenAiError
        def __init__(self, error: _Optional[_Union[_errors_pb2.GenAiError, _Mapping]] = ...) -> None: ...
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    started: DownloadResponse.Started
    progress: DownloadResponse.Progress
    completed: DownloadResponse.Completed
    failed: DownloadResponse.Failed
    def __init__(self, started: _Optional[_Union[DownloadResponse.Started, _Mapping]] = ..., progress: _Optional[_Union[DownloadResponse.Progress, _Mapping]] = ..., completed: _Optional[_Union[DownloadResponse.Completed, _Mapping]] = ..., failed: _Optional[_Union[DownloadResponse.Failed, _Mapping]] = ...) -> None: ...

class GetModelInfoRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ...) -> None: ...

class GetModelInfoResponse(_message.Message):
    __slots__ = ("base_model_name", "simulated_by", "token_limit", "features", "feature_id", "dialect", "version")
    BASE_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_BY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LIMIT_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    base_model_name: str
    simulated_by: str
    token_limit: int
    features: _containers.RepeatedScalarFieldContainer[Feature]
    feature_id: int
    dialect: str
    version: str
    def __init__(self, base_model_name: _Optional[str] = ..., simulated_by: _Optional[str] = ..., token_limit: _Optional[int] = ..., features: _Optional[_Iterable[_Union[Feature, str]]] = ..., feature_id: _Optional[int] = ..., dialect: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class WarmupRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ...) -> None: ...

class WarmupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Content(_message.Message):
    __slots__ = ("role", "parts")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    role: Role
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("text", "image", "function_call", "function_response")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    text: str
    image: ImagePart
    function_call: FunctionCall
    function_response: FunctionResponse
    def __init__(self, text: _Optional[str] = ..., image: _Optional[_Union[ImagePart, _Mapping]] = ..., function_call: _Optional[_Union[FunctionCall, _Mapping]] = ..., function_response: _Optional[_Union[FunctionResponse, _Mapping]] = ...) -> None: ...

class ImagePart(_message.Message):
    __slots__ = ("data", "mime_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    mime_type: str
    def __init__(self, data: _Optional[bytes] = ..., mime_type: _Optional[str] = ...) -> None: ...

class FunctionCall(_message.Message):
    __slots__ = ("id", "name", "args")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    args: _types_pb2.ObjectValue
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., args: _Optional[_Union[_types_pb2.ObjectValue, _Mapping]] = ...) -> None: ...

class FunctionResponse(_message.Message):
    __slots__ = ("id", "name", "response")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    response: _types_pb2.ObjectValue
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., response: _Optional[_Union[_types_pb2.ObjectValue, _Mapping]] = ...) -> None: ...

class FunctionDeclaration(_message.Message):
    __slots__ = ("name", "description", "parameters", "response_schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: _types_pb2.FunctionSchema
    response_schema: _types_pb2.FunctionSchema
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[_Union[_types_pb2.FunctionSchema, _Mapping]] = ..., response_schema: _Optional[_Union[_types_pb2.FunctionSchema, _Mapping]] = ...) -> None: ...

class ToolChoice(_message.Message):
    __slots__ = ("mode", "name")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AUTO: _ClassVar[ToolChoice.Mode]
        NONE: _ClassVar[ToolChoice.Mode]
        REQUIRED: _ClassVar[ToolChoice.Mode]
        NAMED: _ClassVar[ToolChoice.Mode]
    AUTO: ToolChoice.Mode
    NONE: ToolChoice.Mode
    REQUIRED: ToolChoice.Mode
    NAMED: ToolChoice.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    mode: ToolChoice.Mode
    name: str
    def __init__(self, mode: _Optional[_Union[ToolChoice.Mode, str]] = ..., name: _Optional[str] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_k", "seed", "max_output_tokens", "candidate_count")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_k: int
    seed: int
    max_output_tokens: int
    candidate_count: int
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., seed: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., candidate_count: _Optional[int] = ...) -> None: ...

class GenerateContentRequest(_message.Message):
    __slots__ = ("model", "contents", "system_instruction", "tools", "tool_choice", "sampling", "response_schema", "cached_context_name", "prompt_prefix", "enable_thinking", "session_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CACHED_CONTEXT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    ENABLE_THINKING_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    contents: _containers.RepeatedCompositeFieldContainer[Content]
    system_instruction: str
    tools: _containers.RepeatedCompositeFieldContainer[FunctionDeclaration]
    tool_choice: ToolChoice
    sampling: Sampling
    response_schema: _types_pb2.FunctionSchema
    cached_context_name: str
    prompt_prefix: str
    enable_thinking: bool
    session_id: str
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ..., contents: _Optional[_Iterable[_Union[Content, _Mapping]]] = ..., system_instruction: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[FunctionDeclaration, _Mapping]]] = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., response_schema: _Optional[_Union[_types_pb2.FunctionSchema, _Mapping]] = ..., cached_context_name: _Optional[str] = ..., prompt_prefix: _Optional[str] = ..., enable_thinking: _Optional[bool] = ..., session_id: _Optional[str] = ...) -> None: ...

class GenerateContentResponse(_message.Message):
    __slots__ = ("text", "thought", "function_call", "malformed_function_call", "finish", "candidate")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    THOUGHT_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_FUNCTION_CALL_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    text: str
    thought: str
    function_call: FunctionCall
    malformed_function_call: MalformedFunctionCall
    finish: Finish
    candidate: int
    def __init__(self, text: _Optional[str] = ..., thought: _Optional[str] = ..., function_call: _Optional[_Union[FunctionCall, _Mapping]] = ..., malformed_function_call: _Optional[_Union[MalformedFunctionCall, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., candidate: _Optional[int] = ...) -> None: ...

class MalformedFunctionCall(_message.Message):
    __slots__ = ("text", "reason")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    text: str
    reason: str
    def __init__(self, text: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("reason", "usage")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    reason: FinishReason
    usage: Usage
    def __init__(self, reason: _Optional[_Union[FinishReason, str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "cached_input_tokens", "output_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., cached_input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class CountTokensRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: GenerateContentRequest
    def __init__(self, request: _Optional[_Union[GenerateContentRequest, _Mapping]] = ...) -> None: ...

class CountTokensResponse(_message.Message):
    __slots__ = ("total_tokens",)
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    total_tokens: int
    def __init__(self, total_tokens: _Optional[int] = ...) -> None: ...

class CachedContext(_message.Message):
    __slots__ = ("name", "prompt_prefix")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    name: str
    prompt_prefix: str
    def __init__(self, name: _Optional[str] = ..., prompt_prefix: _Optional[str] = ...) -> None: ...

class CreateCachedContextRequest(_message.Message):
    __slots__ = ("model", "cached_context")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CACHED_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    model: ModelSelection
    cached_context: CachedContext
    def __init__(self, model: _Optional[_Union[ModelSelection, _Mapping]] = ..., cached_context: _Optional[_Union[CachedContext, _Mapping]] = ...) -> None: ...

class GetCachedContextRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListCachedContextsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCachedContextsResponse(_message.Message):
    __slots__ = ("cached_contexts",)
    CACHED_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    cached_contexts: _containers.RepeatedCompositeFieldContainer[CachedContext]
    def __init__(self, cached_contexts: _Optional[_Iterable[_Union[CachedContext, _Mapping]]] = ...) -> None: ...

class DeleteCachedContextRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteCachedContextResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class ClearImplicitCachesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearImplicitCachesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
