"""Access levels below Android 17.2: what Jetpack's library does inside the provider's process.

From 17.2 on the platform enforces levels itself. Below, the provider's library verifies the caller
before it runs a function whose compat enforcement is on. On a phone the caller's own Jetpack
attaches a binder of its process and a PendingIntent; here the PendingIntent is a message whose
creator the host writes from the caller's token, as Android's system server does, so that neither
caller nor provider can choose it. Android also sends the PendingIntent and waits a second for the
answer; here the host vouches for the caller, so an invalid signature and a timeout do not occur.

Source: https://github.com/androidx/androidx/tree/androidx-main/appfunctions
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from appfunctions_host.annotations import AppFunctionMetadata
from appfunctions_host.codec import STRICT, ArgumentRules

NATIVE_LEVELS_SDK = 3_700_002
"""`SDK_INT_FULL` of Android 17.2, from which on the library leaves levels to the platform."""

SELF_BINDER_TOKEN = secrets.token_bytes(16)
"""Stands for the binder object that only this process has."""

MISSING_TOKEN = "Execution denied: Missing caller verification token."
MISSING_SYSTEM_TOKEN = "Execution denied: Missing system caller verification token."
OTHER_UID = "Execution denied: Caller UID does not match host application UID."
NO_SYSTEM_PERMISSION = "Execution denied: Caller lacks EXECUTE_APP_FUNCTIONS_SYSTEM."


@dataclass(frozen=True, kw_only=True)
class ProviderEnvironment:
    """What an app knows about its device and itself."""

    sdk_int_full: int = NATIVE_LEVELS_SDK
    uid: int = 0
    rules: ArgumentRules = STRICT


def verify_caller(
    metadata: pb.AppFunctionMetadata,
    verification: pb.CallerVerification,
    environment: ProviderEnvironment,
) -> None:
    """Raises AppFunctionError (1000) for a caller whom the library keeps from the function."""
    if (
        environment.sdk_int_full >= NATIVE_LEVELS_SDK
        or not metadata.is_compat_enforcement_enabled
        or metadata.access_level == AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED
    ):
        return
    refusal = _refusal(metadata.access_level, verification, environment.uid)
    if refusal is not None:
        raise AppFunctionError(AppFunctionCode.DENIED, refusal)


def _refusal(level: int, verification: pb.CallerVerification, own_uid: int) -> str | None:
    intent = verification.pending_intent
    attached = verification.HasField("pending_intent")
    match level:
        case AppFunctionMetadata.ACCESS_LEVEL_SELF:
            if verification.binder_token == SELF_BINDER_TOKEN:
                return None
            if not attached:
                return MISSING_TOKEN
            return None if intent.creator_uid == own_uid else OTHER_UID
        case AppFunctionMetadata.ACCESS_LEVEL_SYSTEM:
            # The app itself is no exception, although the level includes it: so does Jetpack.
            if not attached:
                return MISSING_SYSTEM_TOKEN
            return None if intent.creator_holds_execute_system else NO_SYSTEM_PERMISSION
        case _:
            return f"Execution denied: Unknown access level: {level}"


def attached_by_jetpack(
    metadata: pb.AppFunctionMetadata, sdk_int_full: int
) -> pb.CallerVerification:
    """What a caller's Jetpack attaches, as the caller sends it."""
    made = pb.CallerVerification()
    if sdk_int_full < NATIVE_LEVELS_SDK and metadata.access_level in (
        AppFunctionMetadata.ACCESS_LEVEL_SELF,
        AppFunctionMetadata.ACCESS_LEVEL_SYSTEM,
    ):
        made.pending_intent.SetInParent()
    return made
