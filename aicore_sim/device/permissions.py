"""Android permissions that decide over AppFunctions, by their full names.

Source: https://developer.android.com/reference/android/Manifest.permission
"""

from __future__ import annotations

PREFIX = "android.permission."

EXECUTE_APP_FUNCTIONS = PREFIX + "EXECUTE_APP_FUNCTIONS"
EXECUTE_APP_FUNCTIONS_SYSTEM = PREFIX + "EXECUTE_APP_FUNCTIONS_SYSTEM"
DISCOVER_APP_FUNCTIONS = PREFIX + "DISCOVER_APP_FUNCTIONS"
BIND_APP_FUNCTION_SERVICE = PREFIX + "BIND_APP_FUNCTION_SERVICE"
QUERY_ALL_PACKAGES = PREFIX + "QUERY_ALL_PACKAGES"
INTERACT_ACROSS_USERS_FULL = PREFIX + "INTERACT_ACROSS_USERS_FULL"

KNOWN = frozenset(
    {
        EXECUTE_APP_FUNCTIONS,
        EXECUTE_APP_FUNCTIONS_SYSTEM,
        DISCOVER_APP_FUNCTIONS,
        BIND_APP_FUNCTION_SERVICE,
        QUERY_ALL_PACKAGES,
        INTERACT_ACROSS_USERS_FULL,
    }
)


def full_name(permission: str) -> str:
    """Return the full name of a permission given by its full or short name.

    Raises ValueError for a permission that the simulated device does not know, since a misspelt
    one would silently grant nothing.
    """
    name = permission if permission.startswith(PREFIX) else PREFIX + permission
    if name not in KNOWN:
        short = ", ".join(sorted(known.removeprefix(PREFIX) for known in KNOWN))
        raise ValueError(f"unknown permission {permission!r}; the device knows {short}")
    return name
