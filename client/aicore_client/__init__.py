"""Android's on-device GenAI as an app sees it: agents, AppFunctions and the model."""

from __future__ import annotations

from aicore_client.agent import (
    Agent,
    AgentBuilder,
)
from aicore_client.app_functions import (
    AppFunctionManager,
    AppFunctionSearchSpec,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
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
from aicore_client.prompt import (
    Candidate,
    CountTokensResponse,
    FeatureStatus,
    FinishReason,
    GenerateContentRequest,
    GenerateContentResponse,
    GenerationConfig,
    MalformedFunctionCall,
    ModelConfig,
    ModelPreference,
    ModelReleaseStage,
    Usage,
)
from aicore_client.runner import (
    AgentRunner,
    AgentSession,
)
from aicore_client.schema import (
    FunctionDeclaration,
    FunctionSchema,
    FunctionType,
)
from aicore_client.tools import (
    AgentTool,
    AppFunctionAgentTools,
)

__all__ = [
    "Agent",
    "AgentBuilder",
    "AgentEvent",
    "AgentEventFlow",
    "AgentRunner",
    "AgentSession",
    "AgentTool",
    "AlreadyExistsError",
    "AppFunctionAgentTools",
    "AppFunctionDataTypeMetadata",
    "AppFunctionException",
    "AppFunctionManager",
    "AppFunctionMetadata",
    "AppFunctionName",
    "AppFunctionParameterMetadata",
    "AppFunctionResponseMetadata",
    "AppFunctionSchemaMetadata",
    "AppFunctionSearchSpec",
    "AppFunctionState",
    "Candidate",
    "Content",
    "ContentBuilder",
    "CountTokensResponse",
    "DataType",
    "DeviceConnection",
    "DeviceNotConfiguredError",
    "ExecuteAppFunctionRequest",
    "ExecuteAppFunctionResponse",
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
    "Generation",
    "GenerationConfig",
    "GenerativeModel",
    "InternalError",
    "InvalidRequestError",
    "MalformedFunctionCall",
    "MessageTooLargeError",
    "ModelConfig",
    "ModelPreference",
    "ModelReleaseStage",
    "NoSuchMethodError",
    "NotFoundError",
    "Part",
    "ScriptDriftError",
    "SimulatorError",
    "StringPattern",
    "TextFlow",
    "TextPart",
    "UnauthenticatedError",
    "UnimplementedError",
    "Usage",
    "default_connection",
]
