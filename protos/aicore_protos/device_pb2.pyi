import datetime

from aicore_protos import aicore_pb2 as _aicore_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_STATE_UNSPECIFIED: _ClassVar[ModelState]
    UNLOADED: _ClassVar[ModelState]
    LOADING: _ClassVar[ModelState]
    LOADED: _ClassVar[ModelState]
    BROKEN: _ClassVar[ModelState]

class Importance(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMPORTANCE_UNSPECIFIED: _ClassVar[Importance]
    TOP: _ClassVar[Importance]
    VISIBLE: _ClassVar[Importance]
    FOREGROUND_SERVICE: _ClassVar[Importance]
    OVERLAY: _ClassVar[Importance]
    BACKGROUND: _ClassVar[Importance]
MODEL_STATE_UNSPECIFIED: ModelState
UNLOADED: ModelState
LOADING: ModelState
LOADED: ModelState
BROKEN: ModelState
IMPORTANCE_UNSPECIFIED: Importance
TOP: Importance
VISIBLE: Importance
FOREGROUND_SERVICE: Importance
OVERLAY: Importance
BACKGROUND: Importance

class GetDeviceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Device(_message.Message):
    __slots__ = ("version", "device_dir", "profile", "platform", "model", "unavailable_reason", "seed", "pid", "running", "waiting", "slots", "places", "model_state", "unload_at", "clock", "pace", "quota_model", "base_model_name", "generations", "faults")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_DIR_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_REASON_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    MODEL_STATE_FIELD_NUMBER: _ClassVar[int]
    UNLOAD_AT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    QUOTA_MODEL_FIELD_NUMBER: _ClassVar[int]
    BASE_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    version: str
    device_dir: str
    profile: str
    platform: str
    model: str
    unavailable_reason: str
    seed: int
    pid: int
    running: int
    waiting: int
    slots: int
    places: int
    model_state: ModelState
    unload_at: _timestamp_pb2.Timestamp
    clock: ClockState
    pace: str
    quota_model: str
    base_model_name: str
    generations: _containers.RepeatedCompositeFieldContainer[Generation]
    faults: int
    def __init__(self, version: _Optional[str] = ..., device_dir: _Optional[str] = ..., profile: _Optional[str] = ..., platform: _Optional[str] = ..., model: _Optional[str] = ..., unavailable_reason: _Optional[str] = ..., seed: _Optional[int] = ..., pid: _Optional[int] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., slots: _Optional[int] = ..., places: _Optional[int] = ..., model_state: _Optional[_Union[ModelState, str]] = ..., unload_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., clock: _Optional[_Union[ClockState, _Mapping]] = ..., pace: _Optional[str] = ..., quota_model: _Optional[str] = ..., base_model_name: _Optional[str] = ..., generations: _Optional[_Iterable[_Union[Generation, _Mapping]]] = ..., faults: _Optional[int] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ("package_name", "phase", "since")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PHASE_UNSPECIFIED: _ClassVar[Generation.Phase]
        QUEUED: _ClassVar[Generation.Phase]
        LOADING_MODEL: _ClassVar[Generation.Phase]
        PREFILL: _ClassVar[Generation.Phase]
        DECODING: _ClassVar[Generation.Phase]
    PHASE_UNSPECIFIED: Generation.Phase
    QUEUED: Generation.Phase
    LOADING_MODEL: Generation.Phase
    PREFILL: Generation.Phase
    DECODING: Generation.Phase
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    phase: Generation.Phase
    since: _timestamp_pb2.Timestamp
    def __init__(self, package_name: _Optional[str] = ..., phase: _Optional[_Union[Generation.Phase, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Package(_message.Message):
    __slots__ = ("package_name", "uid", "permissions", "signing_digest", "allowlist_targets")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    SIGNING_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ALLOWLIST_TARGETS_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    uid: int
    permissions: _containers.RepeatedScalarFieldContainer[str]
    signing_digest: str
    allowlist_targets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_name: _Optional[str] = ..., uid: _Optional[int] = ..., permissions: _Optional[_Iterable[str]] = ..., signing_digest: _Optional[str] = ..., allowlist_targets: _Optional[_Iterable[str]] = ...) -> None: ...

class InstallPackageRequest(_message.Message):
    __slots__ = ("package_name", "permissions", "signing_digest", "allowlist_targets")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    SIGNING_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ALLOWLIST_TARGETS_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    signing_digest: str
    allowlist_targets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., signing_digest: _Optional[str] = ..., allowlist_targets: _Optional[_Iterable[str]] = ...) -> None: ...

class InstallPackageResponse(_message.Message):
    __slots__ = ("package", "token")
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    package: Package
    token: str
    def __init__(self, package: _Optional[_Union[Package, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class UninstallPackageRequest(_message.Message):
    __slots__ = ("package_name",)
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    def __init__(self, package_name: _Optional[str] = ...) -> None: ...

class UninstallPackageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearPackageRequest(_message.Message):
    __slots__ = ("package_name",)
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    def __init__(self, package_name: _Optional[str] = ...) -> None: ...

class ClearPackageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrantPermissionRequest(_message.Message):
    __slots__ = ("package_name", "permission")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    permission: str
    def __init__(self, package_name: _Optional[str] = ..., permission: _Optional[str] = ...) -> None: ...

class RevokePermissionRequest(_message.Message):
    __slots__ = ("package_name", "permission")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    permission: str
    def __init__(self, package_name: _Optional[str] = ..., permission: _Optional[str] = ...) -> None: ...

class SetAllowlistRequest(_message.Message):
    __slots__ = ("package_name", "targets")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_name: _Optional[str] = ..., targets: _Optional[_Iterable[str]] = ...) -> None: ...

class ListPackagesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPackagesResponse(_message.Message):
    __slots__ = ("packages",)
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    packages: _containers.RepeatedCompositeFieldContainer[Package]
    def __init__(self, packages: _Optional[_Iterable[_Union[Package, _Mapping]]] = ...) -> None: ...

class IssueLaunchTokenRequest(_message.Message):
    __slots__ = ("package_name", "pid")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    pid: int
    def __init__(self, package_name: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class IssueLaunchTokenResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class SetImportanceRequest(_message.Message):
    __slots__ = ("package_name", "importance", "exclusive")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    importance: Importance
    exclusive: bool
    def __init__(self, package_name: _Optional[str] = ..., importance: _Optional[_Union[Importance, str]] = ..., exclusive: _Optional[bool] = ...) -> None: ...

class GetImportanceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Foreground(_message.Message):
    __slots__ = ("exclusive", "apps")
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    APPS_FIELD_NUMBER: _ClassVar[int]
    exclusive: bool
    apps: _containers.RepeatedCompositeFieldContainer[AppImportance]
    def __init__(self, exclusive: _Optional[bool] = ..., apps: _Optional[_Iterable[_Union[AppImportance, _Mapping]]] = ...) -> None: ...

class AppImportance(_message.Message):
    __slots__ = ("package_name", "importance")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    importance: Importance
    def __init__(self, package_name: _Optional[str] = ..., importance: _Optional[_Union[Importance, str]] = ...) -> None: ...

class SetClockRequest(_message.Message):
    __slots__ = ("mode", "time")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[SetClockRequest.Mode]
        REAL: _ClassVar[SetClockRequest.Mode]
        VIRTUAL: _ClassVar[SetClockRequest.Mode]
        FROZEN: _ClassVar[SetClockRequest.Mode]
    MODE_UNSPECIFIED: SetClockRequest.Mode
    REAL: SetClockRequest.Mode
    VIRTUAL: SetClockRequest.Mode
    FROZEN: SetClockRequest.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    mode: SetClockRequest.Mode
    time: _timestamp_pb2.Timestamp
    def __init__(self, mode: _Optional[_Union[SetClockRequest.Mode, str]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AdvanceClockRequest(_message.Message):
    __slots__ = ("duration",)
    DURATION_FIELD_NUMBER: _ClassVar[int]
    duration: _duration_pb2.Duration
    def __init__(self, duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClockState(_message.Message):
    __slots__ = ("now", "mode")
    NOW_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    now: _timestamp_pb2.Timestamp
    mode: SetClockRequest.Mode
    def __init__(self, now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mode: _Optional[_Union[SetClockRequest.Mode, str]] = ...) -> None: ...

class GetTimeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SleepUntilRequest(_message.Message):
    __slots__ = ("time",)
    TIME_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AppFunctionsPolicy(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: str
    def __init__(self, policy: _Optional[str] = ...) -> None: ...

class SetAppFunctionsPolicyRequest(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: str
    def __init__(self, policy: _Optional[str] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("id", "match", "action", "times", "after", "until", "hits", "probability", "seed")
    ID_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    id: str
    match: FaultMatch
    action: FaultAction
    times: int
    after: int
    until: _timestamp_pb2.Timestamp
    hits: int
    probability: float
    seed: int
    def __init__(self, id: _Optional[str] = ..., match: _Optional[_Union[FaultMatch, _Mapping]] = ..., action: _Optional[_Union[FaultAction, _Mapping]] = ..., times: _Optional[int] = ..., after: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., hits: _Optional[int] = ..., probability: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class FaultMatch(_message.Message):
    __slots__ = ("rpc", "package_name", "function_identifier")
    RPC_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    rpc: str
    package_name: str
    function_identifier: str
    def __init__(self, rpc: _Optional[str] = ..., package_name: _Optional[str] = ..., function_identifier: _Optional[str] = ...) -> None: ...

class FaultAction(_message.Message):
    __slots__ = ("error_code", "delay", "drop_after_tokens", "fail_after_tokens", "malformed", "kill_worker")
    class Malformed(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MALFORMED_UNSPECIFIED: _ClassVar[FaultAction.Malformed]
        BROKEN_CALL: _ClassVar[FaultAction.Malformed]
        TRUNCATED_CALL: _ClassVar[FaultAction.Malformed]
        EMPTY_OUTPUT: _ClassVar[FaultAction.Malformed]
    MALFORMED_UNSPECIFIED: FaultAction.Malformed
    BROKEN_CALL: FaultAction.Malformed
    TRUNCATED_CALL: FaultAction.Malformed
    EMPTY_OUTPUT: FaultAction.Malformed
    class FailAfterTokens(_message.Message):
        __slots__ = ("tokens", "error_code")
        TOKENS_FIELD_NUMBER: _ClassVar[int]
        ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
        tokens: int
        error_code: int
        def __init__(self, tokens: _Optional[int] = ..., error_code: _Optional[int] = ...) -> None: ...
    class KillWorker(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DROP_AFTER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FAIL_AFTER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_FIELD_NUMBER: _ClassVar[int]
    KILL_WORKER_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    delay: _duration_pb2.Duration
    drop_after_tokens: int
    fail_after_tokens: FaultAction.FailAfterTokens
    malformed: FaultAction.Malformed
    kill_worker: FaultAction.KillWorker
    def __init__(self, error_code: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., drop_after_tokens: _Optional[int] = ..., fail_after_tokens: _Optional[_Union[FaultAction.FailAfterTokens, _Mapping]] = ..., malformed: _Optional[_Union[FaultAction.Malformed, str]] = ..., kill_worker: _Optional[_Union[FaultAction.KillWorker, _Mapping]] = ...) -> None: ...

class AddFaultRequest(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: Fault
    def __init__(self, fault: _Optional[_Union[Fault, _Mapping]] = ...) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultsResponse(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class ClearFaultsRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ClearFaultsResponse(_message.Message):
    __slots__ = ("cleared",)
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    cleared: int
    def __init__(self, cleared: _Optional[int] = ...) -> None: ...

class GetQuotaRequest(_message.Message):
    __slots__ = ("package_name",)
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    def __init__(self, package_name: _Optional[str] = ...) -> None: ...

class SetQuotaRequest(_message.Message):
    __slots__ = ("model", "package_name", "charge_seconds")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    CHARGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    model: str
    package_name: str
    charge_seconds: float
    def __init__(self, model: _Optional[str] = ..., package_name: _Optional[str] = ..., charge_seconds: _Optional[float] = ...) -> None: ...

class ResetQuotaRequest(_message.Message):
    __slots__ = ("package_name",)
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    def __init__(self, package_name: _Optional[str] = ...) -> None: ...

class ResetQuotaResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Quota(_message.Message):
    __slots__ = ("model", "available_seconds", "available_calls", "retry_delay", "app_battery", "device_battery", "package_name", "models")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_CALLS_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    APP_BATTERY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BATTERY_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    model: str
    available_seconds: float
    available_calls: int
    retry_delay: _duration_pb2.Duration
    app_battery: BatteryBudget
    device_battery: BatteryBudget
    package_name: str
    models: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[str] = ..., available_seconds: _Optional[float] = ..., available_calls: _Optional[int] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., app_battery: _Optional[_Union[BatteryBudget, _Mapping]] = ..., device_battery: _Optional[_Union[BatteryBudget, _Mapping]] = ..., package_name: _Optional[str] = ..., models: _Optional[_Iterable[str]] = ...) -> None: ...

class BatteryBudget(_message.Message):
    __slots__ = ("started", "ends", "calls", "device_seconds", "calls_limit", "device_seconds_limit")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CALLS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SECONDS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    started: _timestamp_pb2.Timestamp
    ends: _timestamp_pb2.Timestamp
    calls: int
    device_seconds: float
    calls_limit: int
    device_seconds_limit: float
    def __init__(self, started: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ends: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., calls: _Optional[int] = ..., device_seconds: _Optional[float] = ..., calls_limit: _Optional[int] = ..., device_seconds_limit: _Optional[float] = ...) -> None: ...

class GetAvailabilityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetAvailabilityRequest(_message.Message):
    __slots__ = ("status", "network_available", "disk_full", "feature_id")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_FIELD_NUMBER: _ClassVar[int]
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    status: _aicore_pb2.FeatureStatus
    network_available: bool
    disk_full: bool
    feature_id: int
    def __init__(self, status: _Optional[_Union[_aicore_pb2.FeatureStatus, str]] = ..., network_available: _Optional[bool] = ..., disk_full: _Optional[bool] = ..., feature_id: _Optional[int] = ...) -> None: ...

class Availability(_message.Message):
    __slots__ = ("features", "network_available", "disk_full", "progression")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_FIELD_NUMBER: _ClassVar[int]
    PROGRESSION_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedCompositeFieldContainer[FeatureAvailability]
    network_available: bool
    disk_full: bool
    progression: DownloadProgression
    def __init__(self, features: _Optional[_Iterable[_Union[FeatureAvailability, _Mapping]]] = ..., network_available: _Optional[bool] = ..., disk_full: _Optional[bool] = ..., progression: _Optional[_Union[DownloadProgression, _Mapping]] = ...) -> None: ...

class FeatureAvailability(_message.Message):
    __slots__ = ("feature_id", "model", "status", "base_model_name", "downloaded_bytes", "total_bytes")
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BASE_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    DOWNLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    feature_id: int
    model: _aicore_pb2.ModelSelection
    status: _aicore_pb2.FeatureStatus
    base_model_name: str
    downloaded_bytes: int
    total_bytes: int
    def __init__(self, feature_id: _Optional[int] = ..., model: _Optional[_Union[_aicore_pb2.ModelSelection, _Mapping]] = ..., status: _Optional[_Union[_aicore_pb2.FeatureStatus, str]] = ..., base_model_name: _Optional[str] = ..., downloaded_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class DownloadProgression(_message.Message):
    __slots__ = ("rule", "seconds", "polls")
    class Rule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RULE_UNSPECIFIED: _ClassVar[DownloadProgression.Rule]
        IMMEDIATE: _ClassVar[DownloadProgression.Rule]
        SECONDS: _ClassVar[DownloadProgression.Rule]
        POLLS: _ClassVar[DownloadProgression.Rule]
        MANUAL: _ClassVar[DownloadProgression.Rule]
    RULE_UNSPECIFIED: DownloadProgression.Rule
    IMMEDIATE: DownloadProgression.Rule
    SECONDS: DownloadProgression.Rule
    POLLS: DownloadProgression.Rule
    MANUAL: DownloadProgression.Rule
    RULE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    POLLS_FIELD_NUMBER: _ClassVar[int]
    rule: DownloadProgression.Rule
    seconds: float
    polls: int
    def __init__(self, rule: _Optional[_Union[DownloadProgression.Rule, str]] = ..., seconds: _Optional[float] = ..., polls: _Optional[int] = ...) -> None: ...

class ControlDownloadRequest(_message.Message):
    __slots__ = ("advance_bytes", "complete", "fail_with", "progression")
    ADVANCE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FAIL_WITH_FIELD_NUMBER: _ClassVar[int]
    PROGRESSION_FIELD_NUMBER: _ClassVar[int]
    advance_bytes: int
    complete: bool
    fail_with: int
    progression: DownloadProgression
    def __init__(self, advance_bytes: _Optional[int] = ..., complete: _Optional[bool] = ..., fail_with: _Optional[int] = ..., progression: _Optional[_Union[DownloadProgression, _Mapping]] = ...) -> None: ...

class LoadScriptRequest(_message.Message):
    __slots__ = ("yaml",)
    YAML_FIELD_NUMBER: _ClassVar[int]
    yaml: str
    def __init__(self, yaml: _Optional[str] = ...) -> None: ...

class GetScriptRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ScriptState(_message.Message):
    __slots__ = ("steps", "consumed", "remaining")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    steps: int
    consumed: int
    remaining: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, steps: _Optional[int] = ..., consumed: _Optional[int] = ..., remaining: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadJournalRequest(_message.Message):
    __slots__ = ("after_id", "follow", "rpc", "package_name", "last")
    AFTER_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    RPC_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    after_id: int
    follow: bool
    rpc: str
    package_name: str
    last: int
    def __init__(self, after_id: _Optional[int] = ..., follow: _Optional[bool] = ..., rpc: _Optional[str] = ..., package_name: _Optional[str] = ..., last: _Optional[int] = ...) -> None: ...

class JournalEntry(_message.Message):
    __slots__ = ("id", "time", "rpc", "package_name", "decision", "error_code", "figures")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    RPC_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    id: int
    time: _timestamp_pb2.Timestamp
    rpc: str
    package_name: str
    decision: str
    error_code: int
    figures: _containers.ScalarMap[str, float]
    def __init__(self, id: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rpc: _Optional[str] = ..., package_name: _Optional[str] = ..., decision: _Optional[str] = ..., error_code: _Optional[int] = ..., figures: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("scopes",)
    class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SCOPE_UNSPECIFIED: _ClassVar[ResetRequest.Scope]
        CONVERSATIONS: _ClassVar[ResetRequest.Scope]
        QUOTA: _ClassVar[ResetRequest.Scope]
        FAULTS: _ClassVar[ResetRequest.Scope]
        JOURNAL: _ClassVar[ResetRequest.Scope]
        ALL: _ClassVar[ResetRequest.Scope]
        FACTORY: _ClassVar[ResetRequest.Scope]
    SCOPE_UNSPECIFIED: ResetRequest.Scope
    CONVERSATIONS: ResetRequest.Scope
    QUOTA: ResetRequest.Scope
    FAULTS: ResetRequest.Scope
    JOURNAL: ResetRequest.Scope
    ALL: ResetRequest.Scope
    FACTORY: ResetRequest.Scope
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    scopes: _containers.RepeatedScalarFieldContainer[ResetRequest.Scope]
    def __init__(self, scopes: _Optional[_Iterable[_Union[ResetRequest.Scope, str]]] = ...) -> None: ...

class ResetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: bytes
    def __init__(self, state: _Optional[bytes] = ...) -> None: ...

class ImportStateRequest(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: bytes
    def __init__(self, state: _Optional[bytes] = ...) -> None: ...

class ImportStateResponse(_message.Message):
    __slots__ = ("packages", "clock")
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    packages: _containers.RepeatedScalarFieldContainer[str]
    clock: ClockState
    def __init__(self, packages: _Optional[_Iterable[str]] = ..., clock: _Optional[_Union[ClockState, _Mapping]] = ...) -> None: ...

class WatchDeviceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeviceEvent(_message.Message):
    __slots__ = ("package_changed", "package_removed", "clock_changed", "shutdown", "availability_changed", "model_changed")
    class PackageChanged(_message.Message):
        __slots__ = ("package",)
        PACKAGE_FIELD_NUMBER: _ClassVar[int]
        package: Package
        def __init__(self, package: _Optional[_Union[Package, _Mapping]] = ...) -> None: ...
    class PackageRemoved(_message.Message):
        __slots__ = ("package_name",)
        PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
        package_name: str
        def __init__(self, package_name: _Optional[str] = ...) -> None: ...
    class Shutdown(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ModelChanged(_message.Message):
        __slots__ = ("state", "unavailable_reason")
        STATE_FIELD_NUMBER: _ClassVar[int]
        UNAVAILABLE_REASON_FIELD_NUMBER: _ClassVar[int]
        state: ModelState
        unavailable_reason: str
        def __init__(self, state: _Optional[_Union[ModelState, str]] = ..., unavailable_reason: _Optional[str] = ...) -> None: ...
    PACKAGE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_REMOVED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_CHANGED_FIELD_NUMBER: _ClassVar[int]
    MODEL_CHANGED_FIELD_NUMBER: _ClassVar[int]
    package_changed: DeviceEvent.PackageChanged
    package_removed: DeviceEvent.PackageRemoved
    clock_changed: ClockState
    shutdown: DeviceEvent.Shutdown
    availability_changed: Availability
    model_changed: DeviceEvent.ModelChanged
    def __init__(self, package_changed: _Optional[_Union[DeviceEvent.PackageChanged, _Mapping]] = ..., package_removed: _Optional[_Union[DeviceEvent.PackageRemoved, _Mapping]] = ..., clock_changed: _Optional[_Union[ClockState, _Mapping]] = ..., shutdown: _Optional[_Union[DeviceEvent.Shutdown, _Mapping]] = ..., availability_changed: _Optional[_Union[Availability, _Mapping]] = ..., model_changed: _Optional[_Union[DeviceEvent.ModelChanged, _Mapping]] = ...) -> None: ...
