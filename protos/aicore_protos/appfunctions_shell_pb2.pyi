from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class UpdateAccessRequest(_message.Message):
    __slots__ = ("agent_package", "target_package", "flags", "mask")
    AGENT_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    agent_package: str
    target_package: str
    flags: int
    mask: int
    def __init__(self, agent_package: _Optional[str] = ..., target_package: _Optional[str] = ..., flags: _Optional[int] = ..., mask: _Optional[int] = ...) -> None: ...

class GetAccessRequest(_message.Message):
    __slots__ = ("agent_package", "target_package")
    AGENT_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_PACKAGE_FIELD_NUMBER: _ClassVar[int]
    agent_package: str
    target_package: str
    def __init__(self, agent_package: _Optional[str] = ..., target_package: _Optional[str] = ...) -> None: ...

class AccessState(_message.Message):
    __slots__ = ("flags", "request_state")
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    flags: int
    request_state: int
    def __init__(self, flags: _Optional[int] = ..., request_state: _Optional[int] = ...) -> None: ...

class ListValidPackagesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListValidPackagesResponse(_message.Message):
    __slots__ = ("agents", "targets")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    targets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agents: _Optional[_Iterable[str]] = ..., targets: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadAppDescriptionRequest(_message.Message):
    __slots__ = ("package_name",)
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    def __init__(self, package_name: _Optional[str] = ...) -> None: ...

class ReadAppDescriptionResponse(_message.Message):
    __slots__ = ("description",)
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    description: str
    def __init__(self, description: _Optional[str] = ...) -> None: ...

class SetAdditionalAgentsRequest(_message.Message):
    __slots__ = ("package_names",)
    PACKAGE_NAMES_FIELD_NUMBER: _ClassVar[int]
    package_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_names: _Optional[_Iterable[str]] = ...) -> None: ...

class SetAllowlistEnabledRequest(_message.Message):
    __slots__ = ("enabled",)
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    def __init__(self, enabled: _Optional[bool] = ...) -> None: ...

class SetTestPageSizeRequest(_message.Message):
    __slots__ = ("page_size",)
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    def __init__(self, page_size: _Optional[int] = ...) -> None: ...

class SetPackageQueriesRequest(_message.Message):
    __slots__ = ("package_name", "targets")
    PACKAGE_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    package_name: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, package_name: _Optional[str] = ..., targets: _Optional[_Iterable[str]] = ...) -> None: ...

class SetPackageQueriesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShellSettings(_message.Message):
    __slots__ = ("allowlist_enabled", "additional_agents", "test_page_size")
    ALLOWLIST_ENABLED_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_AGENTS_FIELD_NUMBER: _ClassVar[int]
    TEST_PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    allowlist_enabled: bool
    additional_agents: _containers.RepeatedScalarFieldContainer[str]
    test_page_size: int
    def __init__(self, allowlist_enabled: _Optional[bool] = ..., additional_agents: _Optional[_Iterable[str]] = ..., test_page_size: _Optional[int] = ...) -> None: ...
