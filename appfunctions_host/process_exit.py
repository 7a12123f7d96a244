"""A bound on the end of a process that runs other people's functions."""

from __future__ import annotations

import os
import threading


def exit_after(seconds: float) -> threading.Timer:
    """End this process with 1 after `seconds`, unless the timer is cancelled before.

    Python joins the threads of its executors at exit, and one of an app's functions may sit in
    such a thread for ever.
    """
    timer = threading.Timer(seconds, os._exit, args=(1,))
    timer.daemon = True
    timer.start()
    return timer
