"""Access of agents to targets as bit flags, which a settings page of a phone shows.

Android's execution does not consult them: it goes by permission and allowlist (see `access`).

Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class AccessFlag(IntFlag):
    """`AppFunctionManager.ACCESS_FLAG_*`."""

    PREGRANTED = 1
    UPGRADE_GRANTED = 2
    USER_GRANTED = 4
    USER_DENIED = 8
    OTHER_GRANTED = 16
    OTHER_DENIED = 32


class AccessRequestState(IntEnum):
    """`AppFunctionManager.ACCESS_REQUEST_STATE_*`."""

    GRANTED = 0
    DENIED = 1
    UNREQUESTABLE = 2


ALL_FLAGS = 63
_PAIRS = (
    (AccessFlag.USER_GRANTED, AccessFlag.USER_DENIED),
    (AccessFlag.OTHER_GRANTED, AccessFlag.OTHER_DENIED),
)


def updated(flags: int, *, new: int, mask: int) -> int:
    """`flags` with those of `mask` taken from `new`.

    Raises ValueError where Android throws IllegalArgumentException: unknown bits, a flag outside
    the mask, both of a pair, and one of a pair without the other in the mask.
    """
    if (new | mask) & ~ALL_FLAGS:
        raise ValueError(f"flags {new} with mask {mask} have unknown bits")
    if new & ~mask:
        raise ValueError(f"flags {new} are not all in the mask {mask}")
    for granted, denied in _PAIRS:
        both = granted | denied
        if new & both == both:
            raise ValueError(f"{granted.name} and {denied.name} exclude each other")
        if new & both and mask & both != both:
            raise ValueError(
                f"setting {granted.name} or {denied.name} needs both in the mask, "
                "so that the other is cleared"
            )
    return flags & ~mask | new


def is_granted(flags: int) -> bool:
    """What the flags mean together; none is denied, and the user's word wins over a pregrant."""
    if flags & AccessFlag.OTHER_GRANTED or flags & AccessFlag.USER_GRANTED:
        return True
    if flags & (AccessFlag.USER_DENIED | AccessFlag.OTHER_DENIED):
        return False
    return bool(flags & (AccessFlag.PREGRANTED | AccessFlag.UPGRADE_GRANTED))
