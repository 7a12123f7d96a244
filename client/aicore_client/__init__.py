"""Android's on-device GenAI as an app sees it: agents, AppFunctions and the model."""

from __future__ import annotations

from aicore_client.agent import (
    Agent,
    AgentBuilder,
)
from aicore_client.app_function_requests import (
    AppFunctionActivityState,
    AppFunctionSearchSpec,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
)
from aicore_client.app_functions import (
    AppFunctionManager,
)
from aicore_client.blocking import (
    BlockingEvents,
    iterate_blocking,
    run_blocking,
)
from aicore_client.caching import (
    CachedContext,
    Caches,
    CreateCachedContextRequest,
)
from aicore_client.cancellation import (
    CancellationSignal,
)
from aicore_client.confirmation import (
    Declined,
    HitlConfirmationTool,
)
from aicore_client.connection import (
    DeviceConnection,
    default_connection,
)
from aicore_client.content import (
    Content,
    ContentBuilder,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    Part,
    TextPart,
)
from aicore_client.device_clock import (
    DeviceClock,
)
from aicore_client.download_status import (
    DownloadStatus,
)
from aicore_client.errors import (
    AlreadyExistsError,
    AppFunctionException,
    DeviceNotConfiguredError,
    ForbiddenError,
    GenAiException,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
    NoSuchMethodError,
    NotFoundError,
    OperationCanceledException,
    ReplayDriftError,
    ScriptDriftError,
    SimulatorError,
    UnauthenticatedError,
    UnimplementedError,
)
from aicore_client.events import (
    AgentEvent,
)
from aicore_client.flow import (
    AgentEventFlow,
    TextFlow,
)
from aicore_client.generative_model import (
    Generation,
    GenerativeModel,
)
from aicore_client.metadata import (
    AppFunctionDataTypeMetadata,
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionParameterMetadata,
    AppFunctionResponseMetadata,
    AppFunctionSchemaMetadata,
    AppFunctionState,
    DataType,
    StringPattern,
)
from aicore_client.observation import (
    AppFunctionObservation,
    AppFunctionsChangeEvent,
)
from aicore_client.partial_run import PartialRun
from aicore_client.prompt import (
    Candidate,
    CountTokensResponse,
    Feature,
    FeatureStatus,
    FinishReason,
    GenerateContentRequest,
    GenerateContentResponse,
    GenerationConfig,
    MalformedFunctionCall,
    ModelConfig,
    ModelPreference,
    ModelReleaseStage,
    PromptPrefix,
    Usage,
)
from aicore_client.registration import (
    Activity,
    AppFunctionRegistration,
    RegisterAppFunctionRequest,
)
from aicore_client.retry import (
    RetryPolicy,
)
from aicore_client.runner import (
    AgentRunner,
    AgentSession,
)
from aicore_client.runner_options import (
    RunnerOptions,
)
from aicore_client.schema import (
    FunctionDeclaration,
    FunctionSchema,
    FunctionType,
)
from aicore_client.structured import (
    GenerateTypedContentRequest,
    GenerateTypedContentResponse,
    Guide,
    TypedCandidate,
    generable,
)
from aicore_client.tools import (
    AgentTool,
    AppFunctionAgentTools,
)

__all__ = [
    "Activity",
    "Agent",
    "AgentBuilder",
    "AgentEvent",
    "AgentEventFlow",
    "AgentRunner",
    "AgentSession",
    "AgentTool",
    "AlreadyExistsError",
    "AppFunctionActivityState",
    "AppFunctionAgentTools",
    "AppFunctionDataTypeMetadata",
    "AppFunctionException",
    "AppFunctionManager",
    "AppFunctionMetadata",
    "AppFunctionName",
    "AppFunctionObservation",
    "AppFunctionParameterMetadata",
    "AppFunctionRegistration",
    "AppFunctionResponseMetadata",
    "AppFunctionSchemaMetadata",
    "AppFunctionSearchSpec",
    "AppFunctionState",
    "AppFunctionsChangeEvent",
    "BlockingEvents",
    "CachedContext",
    "Caches",
    "CancellationSignal",
    "Candidate",
    "Content",
    "ContentBuilder",
    "CountTokensResponse",
    "CreateCachedContextRequest",
    "DataType",
    "Declined",
    "DeviceClock",
    "DeviceConnection",
    "DeviceNotConfiguredError",
    "DownloadStatus",
    "ExecuteAppFunctionRequest",
    "ExecuteAppFunctionResponse",
    "Feature",
    "FeatureStatus",
    "FinishReason",
    "ForbiddenError",
    "FunctionCall",
    "FunctionCallPart",
    "FunctionDeclaration",
    "FunctionResponsePart",
    "FunctionSchema",
    "FunctionType",
    "GenAiException",
    "GenerateContentRequest",
    "GenerateContentResponse",
    "GenerateTypedContentRequest",
    "GenerateTypedContentResponse",
    "Generation",
    "GenerationConfig",
    "GenerativeModel",
    "Guide",
    "HitlConfirmationTool",
    "InternalError",
    "InvalidRequestError",
    "MalformedFunctionCall",
    "MessageTooLargeError",
    "ModelConfig",
    "ModelPreference",
    "ModelReleaseStage",
    "NoSuchMethodError",
    "NotFoundError",
    "OperationCanceledException",
    "Part",
    "PartialRun",
    "PromptPrefix",
    "RegisterAppFunctionRequest",
    "ReplayDriftError",
    "RetryPolicy",
    "RunnerOptions",
    "ScriptDriftError",
    "SimulatorError",
    "StringPattern",
    "TextFlow",
    "TextPart",
    "TypedCandidate",
    "UnauthenticatedError",
    "UnimplementedError",
    "Usage",
    "default_connection",
    "generable",
    "iterate_blocking",
    "run_blocking",
]
