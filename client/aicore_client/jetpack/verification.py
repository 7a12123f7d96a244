"""Access levels below Android 17.2: what Jetpack attaches to calls, and checks in functions.

The host writes who made a PendingIntent, as Android's system server does.
https://github.com/androidx/androidx/tree/androidx-main/appfunctions
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from aicore_client.jetpack.exceptions import AppFunctionDeniedException
from aicore_client.metadata import AppFunctionMetadata
from aicore_protos import appfunctions_pb2

NATIVE_LEVELS_SDK: Final = 3_700_002
"""`SDK_INT_FULL` of Android 17.2, from which on the platform enforces levels."""


@cache
def self_binder_token(package_name: str, uid: int) -> bytes:
    """Stands for a binder object of the app's process; here one process can be several apps."""
    return os.urandom(16)


def attached_verification(
    function: AppFunctionMetadata, caller: appfunctions_pb2.GetCallingPackageResponse
) -> appfunctions_pb2.CallerVerification | None:
    """Both tokens for a SELF function, the PendingIntent for a SYSTEM one, nothing for others."""
    if caller.sdk_int_full >= NATIVE_LEVELS_SDK:
        return None
    made = appfunctions_pb2.CallerVerification()
    match function.access_level:
        case AppFunctionMetadata.ACCESS_LEVEL_SELF:
            made.binder_token = self_binder_token(caller.package_name, caller.uid)
            made.pending_intent.SetInParent()
        case AppFunctionMetadata.ACCESS_LEVEL_SYSTEM:
            made.pending_intent.SetInParent()
        case _:
            return None
    return made


def verify_caller(
    function: AppFunctionMetadata,
    verification: appfunctions_pb2.CallerVerification,
    own: appfunctions_pb2.GetCallingPackageResponse,
) -> None:
    """Raises AppFunctionDeniedException for a caller whom Jetpack keeps from the function of the
    app that `own` describes."""
    if own.sdk_int_full >= NATIVE_LEVELS_SDK or not function.is_compat_enforcement_enabled:
        return
    attached = verification.HasField("pending_intent")
    intent = verification.pending_intent
    match function.access_level:
        case AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED:
            return
        case AppFunctionMetadata.ACCESS_LEVEL_SELF:
            if verification.binder_token == self_binder_token(own.package_name, own.uid):
                return
            if not attached:
                raise _denied("Missing caller verification token.")
            if intent.creator_uid != own.uid:
                raise _denied("Caller UID does not match host application UID.")
        case AppFunctionMetadata.ACCESS_LEVEL_SYSTEM:
            # The app itself is no exception, although the level includes it: so does Jetpack.
            if not attached:
                raise _denied("Missing system caller verification token.")
            if not intent.creator_holds_execute_system:
                raise _denied("Caller lacks EXECUTE_APP_FUNCTIONS_SYSTEM.")
        case level:
            raise _denied(f"Unknown access level: {level}")


def _denied(why: str) -> AppFunctionDeniedException:
    return AppFunctionDeniedException(f"Execution denied: {why}")
