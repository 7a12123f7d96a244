"""Android permissions that decide over AppFunctions, by their full names.

Source: https://developer.android.com/reference/android/Manifest.permission
"""

from __future__ import annotations

_PREFIX = "android.permission."

EXECUTE_APP_FUNCTIONS = _PREFIX + "EXECUTE_APP_FUNCTIONS"
EXECUTE_APP_FUNCTIONS_SYSTEM = _PREFIX + "EXECUTE_APP_FUNCTIONS_SYSTEM"
DISCOVER_APP_FUNCTIONS = _PREFIX + "DISCOVER_APP_FUNCTIONS"
BIND_APP_FUNCTION_SERVICE = _PREFIX + "BIND_APP_FUNCTION_SERVICE"
QUERY_ALL_PACKAGES = _PREFIX + "QUERY_ALL_PACKAGES"
INTERACT_ACROSS_USERS_FULL = _PREFIX + "INTERACT_ACROSS_USERS_FULL"

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
    name = permission if permission.startswith(_PREFIX) else _PREFIX + permission
    if name not in KNOWN:
        short = ", ".join(sorted(known.removeprefix(_PREFIX) for known in KNOWN))
        raise ValueError(f"unknown permission {permission!r}; the device knows {short}")
    return name
