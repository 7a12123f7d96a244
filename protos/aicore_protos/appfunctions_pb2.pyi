from aicore_protos import errors_pb2 as _errors_pb2
from aicore_protos import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TYPE_UNIT: _ClassVar[DataType]
    TYPE_BOOLEAN: _ClassVar[DataType]
    TYPE_BYTES: _ClassVar[DataType]
    TYPE_OBJECT: _ClassVar[DataType]
    TYPE_DOUBLE: _ClassVar[DataType]
    TYPE_FLOAT: _ClassVar[DataType]
    TYPE_LONG: _ClassVar[DataType]
    TYPE_INT: _ClassVar[DataType]
    TYPE_STRING: _ClassVar[DataType]
    TYPE_ARRAY: _ClassVar[DataType]
    TYPE_REFERENCE: _ClassVar[DataType]
    TYPE_ALL_OF: _ClassVar[DataType]
    TYPE_PARCELABLE: _ClassVar[DataType]
    TYPE_ONE_OF: _ClassVar[DataType]

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_GLOBAL: _ClassVar[Scope]
    SCOPE_ACTIVITY: _ClassVar[Scope]

class CallerLibrary(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALLER_LIBRARY_PLATFORM: _ClassVar[CallerLibrary]
    CALLER_LIBRARY_JETPACK: _ClassVar[CallerLibrary]

class EnabledState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APP_FUNCTION_STATE_DEFAULT: _ClassVar[EnabledState]
    APP_FUNCTION_STATE_ENABLED: _ClassVar[EnabledState]
    APP_FUNCTION_STATE_DISABLED: _ClassVar[EnabledState]
TYPE_UNIT: DataType
TYPE_BOOLEAN: DataType
TYPE_BYTES: DataType
TYPE_OBJECT: DataType
TYPE_DOUBLE: DataType
TYPE_FLOAT: DataType
TYPE_LONG: DataType
TYPE_INT: DataType
TYPE_STRING: DataType
TYPE_ARRAY: DataType
TYPE_REFERENCE: DataType
TYPE_ALL_OF: DataType
TYPE_PARCELABLE: DataType
TYPE_ONE_OF: DataType
SCOPE_GLOBAL: Scope
SCOPE_ACTIVITY: Scope
CALLER_LIBRARY_PLATFORM: CallerLibrary
CALLER_LIBRARY_JETPACK: CallerLibrary
APP_FUNCTION_STATE_DEFAULT: EnabledState
APP_FUNCTION_STATE_ENABLED: EnabledState
APP_FUNCTION_STATE_DISABLED: EnabledState

class AppFunctionName(_message.Message):
    __slots__ = ("package_name", "function_identifier")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    function_identifier: str
    def __init__(self, package_name: _Optional[str] = ..., function_identifier: _Optional[str] = ...) -> None: ...

class DataTypeMetadata(_message.Message):
    __slots__ = ("type", "is_nullable", "description", "item_type", "properties", "required", "object_qualified_name", "data_type_reference", "all_of", "one_of", "enum_values", "patterns", "format")
    class Property(_message.Message):
        __slots__ = ("name", "data_type")
        NAME_FIELD_NUMBER: _ClassVar[int]
        DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
        name: str
        data_type: DataTypeMetadata
        def __init__(self, name: _Optional[str] = ..., data_type: _Optional[_Union[DataTypeMetadata, _Mapping]] = ...) -> None: ...
    class StringPattern(_message.Message):
        __slots__ = ("value", "type")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        TYPE_FIELD_NUMBER: _ClassVar[int]
        value: str
        type: int
        def __init__(self, value: _Optional[str] = ..., type: _Optional[int] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    IS_NULLABLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ITEM_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    OBJECT_QUALIFIED_NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    ONE_OF_FIELD_NUMBER: _ClassVar[int]
    ENUM_VALUES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    type: DataType
    is_nullable: bool
    description: str
    item_type: DataTypeMetadata
    properties: _containers.RepeatedCompositeFieldContainer[DataTypeMetadata.Property]
    required: _containers.RepeatedScalarFieldContainer[str]
    object_qualified_name: str
    data_type_reference: str
    all_of: _containers.RepeatedCompositeFieldContainer[DataTypeMetadata]
    one_of: _containers.RepeatedCompositeFieldContainer[DataTypeMetadata]
    enum_values: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedCompositeFieldContainer[DataTypeMetadata.StringPattern]
    format: str
    def __init__(self, type: _Optional[_Union[DataType, str]] = ..., is_nullable: _Optional[bool] = ..., description: _Optional[str] = ..., item_type: _Optional[_Union[DataTypeMetadata, _Mapping]] = ..., properties: _Optional[_Iterable[_Union[DataTypeMetadata.Property, _Mapping]]] = ..., required: _Optional[_Iterable[str]] = ..., object_qualified_name: _Optional[str] = ..., data_type_reference: _Optional[str] = ..., all_of: _Optional[_Iterable[_Union[DataTypeMetadata, _Mapping]]] = ..., one_of: _Optional[_Iterable[_Union[DataTypeMetadata, _Mapping]]] = ..., enum_values: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[_Union[DataTypeMetadata.StringPattern, _Mapping]]] = ..., format: _Optional[str] = ...) -> None: ...

class ParameterMetadata(_message.Message):
    __slots__ = ("name", "is_required", "data_type", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_required: bool
    data_type: DataTypeMetadata
    description: str
    def __init__(self, name: _Optional[str] = ..., is_required: _Optional[bool] = ..., data_type: _Optional[_Union[DataTypeMetadata, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class ResponseMetadata(_message.Message):
    __slots__ = ("value_type", "description")
    VALUE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    value_type: DataTypeMetadata
    description: str
    def __init__(self, value_type: _Optional[_Union[DataTypeMetadata, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class SchemaMetadata(_message.Message):
    __slots__ = ("category", "name", "version")
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    category: str
    name: str
    version: int
    def __init__(self, category: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class AppFunctionMetadata(_message.Message):
    __slots__ = ("name", "schema", "parameters", "response", "description", "deprecation_message", "scope", "access_level", "is_compat_enforcement_enabled", "is_enabled_by_default", "components", "instruction", "timeout_seconds", "service_name")
    class ComponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DataTypeMetadata
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DataTypeMetadata, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DEPRECATION_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    ACCESS_LEVEL_FIELD_NUMBER: _ClassVar[int]
    IS_COMPAT_ENFORCEMENT_ENABLED_FIELD_NUMBER: _ClassVar[int]
    IS_ENABLED_BY_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    name: AppFunctionName
    schema: SchemaMetadata
    parameters: _containers.RepeatedCompositeFieldContainer[ParameterMetadata]
    response: ResponseMetadata
    description: str
    deprecation_message: str
    scope: Scope
    access_level: int
    is_compat_enforcement_enabled: bool
    is_enabled_by_default: bool
    components: _containers.MessageMap[str, DataTypeMetadata]
    instruction: str
    timeout_seconds: float
    service_name: str
    def __init__(self, name: _Optional[_Union[AppFunctionName, _Mapping]] = ..., schema: _Optional[_Union[SchemaMetadata, _Mapping]] = ..., parameters: _Optional[_Iterable[_Union[ParameterMetadata, _Mapping]]] = ..., response: _Optional[_Union[ResponseMetadata, _Mapping]] = ..., description: _Optional[str] = ..., deprecation_message: _Optional[str] = ..., scope: _Optional[_Union[Scope, str]] = ..., access_level: _Optional[int] = ..., is_compat_enforcement_enabled: _Optional[bool] = ..., is_enabled_by_default: _Optional[bool] = ..., components: _Optional[_Mapping[str, DataTypeMetadata]] = ..., instruction: _Optional[str] = ..., timeout_seconds: _Optional[float] = ..., service_name: _Optional[str] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("package_names", "function_names", "schema_category", "schema_name", "min_schema_version", "scopes", "page_size", "page_token", "calling_package", "library")
    PACKAGE_NAMES_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_NAMES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_CATEGORY_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    package_names: _containers.RepeatedScalarFieldContainer[str]
    function_names: _containers.RepeatedCompositeFieldContainer[AppFunctionName]
    schema_category: str
    schema_name: str
    min_schema_version: int
    scopes: _containers.RepeatedScalarFieldContainer[Scope]
    page_size: int
    page_token: str
    calling_package: str
    library: CallerLibrary
    def __init__(self, package_names: _Optional[_Iterable[str]] = ..., function_names: _Optional[_Iterable[_Union[AppFunctionName, _Mapping]]] = ..., schema_category: _Optional[str] = ..., schema_name: _Optional[str] = ..., min_schema_version: _Optional[int] = ..., scopes: _Optional[_Iterable[_Union[Scope, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., calling_package: _Optional[str] = ..., library: _Optional[_Union[CallerLibrary, str]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("functions", "next_page_token")
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    functions: _containers.RepeatedCompositeFieldContainer[AppFunctionMetadata]
    next_page_token: str
    def __init__(self, functions: _Optional[_Iterable[_Union[AppFunctionMetadata, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AppFunctionState(_message.Message):
    __slots__ = ("name", "is_enabled", "activity_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_IDS_FIELD_NUMBER: _ClassVar[int]
    name: AppFunctionName
    is_enabled: bool
    activity_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[_Union[AppFunctionName, _Mapping]] = ..., is_enabled: _Optional[bool] = ..., activity_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStatesRequest(_message.Message):
    __slots__ = ("names", "calling_package", "library")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[AppFunctionName]
    calling_package: str
    library: CallerLibrary
    def __init__(self, names: _Optional[_Iterable[_Union[AppFunctionName, _Mapping]]] = ..., calling_package: _Optional[str] = ..., library: _Optional[_Union[CallerLibrary, str]] = ...) -> None: ...

class GetStatesResponse(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[AppFunctionState]
    def __init__(self, states: _Optional[_Iterable[_Union[AppFunctionState, _Mapping]]] = ...) -> None: ...

class GetActivityStatesRequest(_message.Message):
    __slots__ = ("activity_ids", "calling_package", "library")
    ACTIVITY_IDS_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    activity_ids: _containers.RepeatedScalarFieldContainer[str]
    calling_package: str
    library: CallerLibrary
    def __init__(self, activity_ids: _Optional[_Iterable[str]] = ..., calling_package: _Optional[str] = ..., library: _Optional[_Union[CallerLibrary, str]] = ...) -> None: ...

class GetActivityStatesResponse(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[AppFunctionActivityState]
    def __init__(self, states: _Optional[_Iterable[_Union[AppFunctionActivityState, _Mapping]]] = ...) -> None: ...

class AppFunctionActivityState(_message.Message):
    __slots__ = ("activity_id", "names")
    ACTIVITY_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    activity_id: str
    names: _containers.RepeatedCompositeFieldContainer[AppFunctionName]
    def __init__(self, activity_id: _Optional[str] = ..., names: _Optional[_Iterable[_Union[AppFunctionName, _Mapping]]] = ...) -> None: ...

class CallerVerification(_message.Message):
    __slots__ = ("binder_token", "pending_intent")
    class PendingIntent(_message.Message):
        __slots__ = ("creator_package", "creator_uid", "creator_holds_execute_system")
        CREATOR_PACKAGE_FIELD_NUMBER: _ClassVar[int]
        CREATOR_UID_FIELD_NUMBER: _ClassVar[int]
        CREATOR_HOLDS_EXECUTE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
        creator_package: str
        creator_uid: int
        creator_holds_execute_system: bool
        def __init__(self, creator_package: _Optional[str] = ..., creator_uid: _Optional[int] = ..., creator_holds_execute_system: _Optional[bool] = ...) -> None: ...
    BINDER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PENDING_INTENT_FIELD_NUMBER: _ClassVar[int]
    binder_token: bytes
    pending_intent: CallerVerification.PendingIntent
    def __init__(self, binder_token: _Optional[bytes] = ..., pending_intent: _Optional[_Union[CallerVerification.PendingIntent, _Mapping]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("name", "parameters", "activity_id", "calling_package", "target_user", "verification", "cancellation_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_ID_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_USER_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    CANCELLATION_ID_FIELD_NUMBER: _ClassVar[int]
    name: AppFunctionName
    parameters: _types_pb2.ObjectValue
    activity_id: str
    calling_package: str
    target_user: int
    verification: CallerVerification
    cancellation_id: str
    def __init__(self, name: _Optional[_Union[AppFunctionName, _Mapping]] = ..., parameters: _Optional[_Union[_types_pb2.ObjectValue, _Mapping]] = ..., activity_id: _Optional[str] = ..., calling_package: _Optional[str] = ..., target_user: _Optional[int] = ..., verification: _Optional[_Union[CallerVerification, _Mapping]] = ..., cancellation_id: _Optional[str] = ...) -> None: ...

class CancelExecutionRequest(_message.Message):
    __slots__ = ("cancellation_id",)
    CANCELLATION_ID_FIELD_NUMBER: _ClassVar[int]
    cancellation_id: str
    def __init__(self, cancellation_id: _Optional[str] = ...) -> None: ...

class CancelExecutionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("return_value",)
    RETURN_VALUE_FIELD_NUMBER: _ClassVar[int]
    return_value: _types_pb2.Value
    def __init__(self, return_value: _Optional[_Union[_types_pb2.Value, _Mapping]] = ...) -> None: ...

class IsEnabledRequest(_message.Message):
    __slots__ = ("name", "calling_package")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    name: AppFunctionName
    calling_package: str
    def __init__(self, name: _Optional[_Union[AppFunctionName, _Mapping]] = ..., calling_package: _Optional[str] = ...) -> None: ...

class IsEnabledResponse(_message.Message):
    __slots__ = ("is_enabled",)
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    is_enabled: bool
    def __init__(self, is_enabled: _Optional[bool] = ...) -> None: ...

class SetEnabledRequest(_message.Message):
    __slots__ = ("name", "state", "calling_package")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    name: AppFunctionName
    state: EnabledState
    calling_package: str
    def __init__(self, name: _Optional[_Union[AppFunctionName, _Mapping]] = ..., state: _Optional[_Union[EnabledState, str]] = ..., calling_package: _Optional[str] = ...) -> None: ...

class SetEnabledResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("calling_package", "library")
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    calling_package: str
    library: CallerLibrary
    def __init__(self, calling_package: _Optional[str] = ..., library: _Optional[_Union[CallerLibrary, str]] = ...) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ("metadata_changed", "states_changed")
    class MetadataChanged(_message.Message):
        __slots__ = ("package_names",)
        PACKAGE_NAMES_FIELD_NUMBER: _ClassVar[int]
        package_names: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, package_names: _Optional[_Iterable[str]] = ...) -> None: ...
    class StatesChanged(_message.Message):
        __slots__ = ("names",)
        NAMES_FIELD_NUMBER: _ClassVar[int]
        names: _containers.RepeatedCompositeFieldContainer[AppFunctionName]
        def __init__(self, names: _Optional[_Iterable[_Union[AppFunctionName, _Mapping]]] = ...) -> None: ...
    METADATA_CHANGED_FIELD_NUMBER: _ClassVar[int]
    STATES_CHANGED_FIELD_NUMBER: _ClassVar[int]
    metadata_changed: ObserveResponse.MetadataChanged
    states_changed: ObserveResponse.StatesChanged
    def __init__(self, metadata_changed: _Optional[_Union[ObserveResponse.MetadataChanged, _Mapping]] = ..., states_changed: _Optional[_Union[ObserveResponse.StatesChanged, _Mapping]] = ...) -> None: ...

class GetCallingPackageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCallingPackageResponse(_message.Message):
    __slots__ = ("package_name", "uid", "permissions", "sdk_int_full")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    SDK_INT_FULL_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    uid: int
    permissions: _containers.RepeatedScalarFieldContainer[str]
    sdk_int_full: int
    def __init__(self, package_name: _Optional[str] = ..., uid: _Optional[int] = ..., permissions: _Optional[_Iterable[str]] = ..., sdk_int_full: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("package_name", "function", "id_filter")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ID_FILTER_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    function: AppFunctionName
    id_filter: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_name: _Optional[str] = ..., function: _Optional[_Union[AppFunctionName, _Mapping]] = ..., id_filter: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("discoverable", "discovery_reason", "execute_error_code", "execute_reason", "discovery_rule", "execute_rule", "filtered_out")
    DISCOVERABLE_FIELD_NUMBER: _ClassVar[int]
    DISCOVERY_REASON_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_REASON_FIELD_NUMBER: _ClassVar[int]
    DISCOVERY_RULE_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_RULE_FIELD_NUMBER: _ClassVar[int]
    FILTERED_OUT_FIELD_NUMBER: _ClassVar[int]
    discoverable: bool
    discovery_reason: str
    execute_error_code: int
    execute_reason: str
    discovery_rule: str
    execute_rule: str
    filtered_out: bool
    def __init__(self, discoverable: _Optional[bool] = ..., discovery_reason: _Optional[str] = ..., execute_error_code: _Optional[int] = ..., execute_reason: _Optional[str] = ..., discovery_rule: _Optional[str] = ..., execute_rule: _Optional[str] = ..., filtered_out: _Optional[bool] = ...) -> None: ...

class ServiceCommand(_message.Message):
    __slots__ = ("package_name", "command", "directory", "is_running", "last_failure")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    command: _containers.RepeatedScalarFieldContainer[str]
    directory: str
    is_running: bool
    last_failure: str
    def __init__(self, package_name: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., directory: _Optional[str] = ..., is_running: _Optional[bool] = ..., last_failure: _Optional[str] = ...) -> None: ...

class SetServiceCommandRequest(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: ServiceCommand
    def __init__(self, service: _Optional[_Union[ServiceCommand, _Mapping]] = ...) -> None: ...

class SetServiceCommandResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListServiceCommandsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListServiceCommandsResponse(_message.Message):
    __slots__ = ("services",)
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    services: _containers.RepeatedCompositeFieldContainer[ServiceCommand]
    def __init__(self, services: _Optional[_Iterable[_Union[ServiceCommand, _Mapping]]] = ...) -> None: ...

class WatchDecisionsRequest(_message.Message):
    __slots__ = ("after_id", "only_recorded")
    AFTER_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_RECORDED_FIELD_NUMBER: _ClassVar[int]
    after_id: int
    only_recorded: bool
    def __init__(self, after_id: _Optional[int] = ..., only_recorded: _Optional[bool] = ...) -> None: ...

class AppFunctionDecision(_message.Message):
    __slots__ = ("id", "time", "operation", "calling_package", "function", "rule", "reason", "allowed", "error_code")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    id: int
    time: float
    operation: str
    calling_package: str
    function: AppFunctionName
    rule: str
    reason: str
    allowed: bool
    error_code: int
    def __init__(self, id: _Optional[int] = ..., time: _Optional[float] = ..., operation: _Optional[str] = ..., calling_package: _Optional[str] = ..., function: _Optional[_Union[AppFunctionName, _Mapping]] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., allowed: _Optional[bool] = ..., error_code: _Optional[int] = ...) -> None: ...

class ProviderMessage(_message.Message):
    __slots__ = ("register", "result", "unregister", "register_app_functions", "unregister_app_functions")
    class Register(_message.Message):
        __slots__ = ("functions", "package_name")
        FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
        PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
        functions: _containers.RepeatedCompositeFieldContainer[AppFunctionMetadata]
        package_name: str
        def __init__(self, functions: _Optional[_Iterable[_Union[AppFunctionMetadata, _Mapping]]] = ..., package_name: _Optional[str] = ...) -> None: ...
    class RegisterAppFunctions(_message.Message):
        __slots__ = ("registration_id", "registrations")
        REGISTRATION_ID_FIELD_NUMBER: _ClassVar[int]
        REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
        registration_id: int
        registrations: _containers.RepeatedCompositeFieldContainer[ProviderMessage.Registration]
        def __init__(self, registration_id: _Optional[int] = ..., registrations: _Optional[_Iterable[_Union[ProviderMessage.Registration, _Mapping]]] = ...) -> None: ...
    class Registration(_message.Message):
        __slots__ = ("function_identifier", "activity_id")
        FUNCTION_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
        ACTIVITY_ID_FIELD_NUMBER: _ClassVar[int]
        function_identifier: str
        activity_id: str
        def __init__(self, function_identifier: _Optional[str] = ..., activity_id: _Optional[str] = ...) -> None: ...
    class UnregisterAppFunctions(_message.Message):
        __slots__ = ("registration_id",)
        REGISTRATION_ID_FIELD_NUMBER: _ClassVar[int]
        registration_id: int
        def __init__(self, registration_id: _Optional[int] = ...) -> None: ...
    class Unregister(_message.Message):
        __slots__ = ("function_identifiers",)
        FUNCTION_IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
        function_identifiers: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, function_identifiers: _Optional[_Iterable[str]] = ...) -> None: ...
    class CallResult(_message.Message):
        __slots__ = ("call_id", "return_value", "error")
        CALL_ID_FIELD_NUMBER: _ClassVar[int]
        RETURN_VALUE_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        call_id: int
        return_value: _types_pb2.Value
        error: _errors_pb2.AppFunctionError
        def __init__(self, call_id: _Optional[int] = ..., return_value: _Optional[_Union[_types_pb2.Value, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.AppFunctionError, _Mapping]] = ...) -> None: ...
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    REGISTER_APP_FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_APP_FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    register: ProviderMessage.Register
    result: ProviderMessage.CallResult
    unregister: ProviderMessage.Unregister
    register_app_functions: ProviderMessage.RegisterAppFunctions
    unregister_app_functions: ProviderMessage.UnregisterAppFunctions
    def __init__(self, register: _Optional[_Union[ProviderMessage.Register, _Mapping]] = ..., result: _Optional[_Union[ProviderMessage.CallResult, _Mapping]] = ..., unregister: _Optional[_Union[ProviderMessage.Unregister, _Mapping]] = ..., register_app_functions: _Optional[_Union[ProviderMessage.RegisterAppFunctions, _Mapping]] = ..., unregister_app_functions: _Optional[_Union[ProviderMessage.UnregisterAppFunctions, _Mapping]] = ...) -> None: ...

class HostMessage(_message.Message):
    __slots__ = ("registered", "call", "cancel", "registration_result")
    class Registered(_message.Message):
        __slots__ = ("function_identifiers", "sdk_int_full", "uid", "ignore_unknown_arguments", "ignore_constraints")
        FUNCTION_IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
        SDK_INT_FULL_FIELD_NUMBER: _ClassVar[int]
        UID_FIELD_NUMBER: _ClassVar[int]
        IGNORE_UNKNOWN_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
        IGNORE_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
        function_identifiers: _containers.RepeatedScalarFieldContainer[str]
        sdk_int_full: int
        uid: int
        ignore_unknown_arguments: bool
        ignore_constraints: bool
        def __init__(self, function_identifiers: _Optional[_Iterable[str]] = ..., sdk_int_full: _Optional[int] = ..., uid: _Optional[int] = ..., ignore_unknown_arguments: _Optional[bool] = ..., ignore_constraints: _Optional[bool] = ...) -> None: ...
    class RegistrationResult(_message.Message):
        __slots__ = ("registration_id", "error")
        REGISTRATION_ID_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        registration_id: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, registration_id: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    class Call(_message.Message):
        __slots__ = ("call_id", "function_identifier", "parameters", "activity_id", "calling_package", "verification")
        CALL_ID_FIELD_NUMBER: _ClassVar[int]
        FUNCTION_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
        PARAMETERS_FIELD_NUMBER: _ClassVar[int]
        ACTIVITY_ID_FIELD_NUMBER: _ClassVar[int]
        CALLING_PACKAGE_FIELD_NUMBER: _ClassVar[int]
        VERIFICATION_FIELD_NUMBER: _ClassVar[int]
        call_id: int
        function_identifier: str
        parameters: _types_pb2.ObjectValue
        activity_id: str
        calling_package: str
        verification: CallerVerification
        def __init__(self, call_id: _Optional[int] = ..., function_identifier: _Optional[str] = ..., parameters: _Optional[_Union[_types_pb2.ObjectValue, _Mapping]] = ..., activity_id: _Optional[str] = ..., calling_package: _Optional[str] = ..., verification: _Optional[_Union[CallerVerification, _Mapping]] = ...) -> None: ...
    class Cancel(_message.Message):
        __slots__ = ("call_id",)
        CALL_ID_FIELD_NUMBER: _ClassVar[int]
        call_id: int
        def __init__(self, call_id: _Optional[int] = ...) -> None: ...
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_RESULT_FIELD_NUMBER: _ClassVar[int]
    registered: HostMessage.Registered
    call: HostMessage.Call
    cancel: HostMessage.Cancel
    registration_result: HostMessage.RegistrationResult
    def __init__(self, registered: _Optional[_Union[HostMessage.Registered, _Mapping]] = ..., call: _Optional[_Union[HostMessage.Call, _Mapping]] = ..., cancel: _Optional[_Union[HostMessage.Cancel, _Mapping]] = ..., registration_result: _Optional[_Union[HostMessage.RegistrationResult, _Mapping]] = ...) -> None: ...
