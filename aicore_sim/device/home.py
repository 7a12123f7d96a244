"""The device directory: where one simulated device keeps its state."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

HOME_VARIABLE = "AICORE_SIM_HOME"
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the final zero included.
_SOCKET_PATH_LIMIT = 100
_CONTROL_TOKEN = re.compile(r"ctl_[A-Za-z0-9_-]{43}")


class DeviceInUse(Exception):
    """Another process holds the device directory."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"the device directory {str(path)!r} is in use by {holder}; "
            "stop it with `aicore-sim stop`, or choose another directory with --device-dir"
        )


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunningDaemon(_Facts):
    address: str
    pid: int = Field(gt=1)


class RunningDevice(_Facts):
    """What a running device publishes about itself."""

    version: str
    device_dir: str
    pid: int = Field(gt=1)
    pid_started: str
    """Tells the process from a later one with the same number."""
    aicore: RunningDaemon
    appfunctions: RunningDaemon
    model: str
    unavailable_reason: str
    profile: str
    platform: str
    seed: int


def default_home() -> Path:
    """`AICORE_SIM_HOME`, else the user's data directory."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("aicore-sim")) / "device"


class DeviceHome:
    """Paths, modes and locks of one device directory. Files are 0600, folders 0700."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (path or default_home()).expanduser().absolute()
        self.database_path = self.path / "device.db"
        self.control_token_path = self.path / "control.token"
        self.running_path = self.path / "running.json"
        self.profile_path = self.path / "profile.json"

    def prepare(self) -> None:
        """Make the directory and the control token, and tighten the modes."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
        if self._stored_control_token() is None:
            self.write_private(self.control_token_path, "ctl_" + secrets.token_urlsafe(32))

    def read_control_token(self) -> str:
        """Raises FileNotFoundError with a hint when no device has been started here."""
        token = self._stored_control_token()
        if token is None:
            raise FileNotFoundError(
                f"no device in {str(self.path)!r}; start one with `aicore-sim up` "
                f"or name its directory with --device-dir or {HOME_VARIABLE}"
            )
        return token

    def _stored_control_token(self) -> str | None:
        """The token, or None for a file that is missing or damaged."""
        try:
            token = self.control_token_path.read_text()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return token if _CONTROL_TOKEN.fullmatch(token) else None

    def log_path(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def socket_path(self, name: str) -> Path:
        """A Unix socket path that the system accepts.

        A device directory too deep for that gets a short runtime folder, private to the user.
        """
        path = self.path / f"{name}.sock"
        if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
            return path
        digest = sha256(os.fsencode(self.path)).hexdigest()[:12]
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        folder = Path(base) / f"aicore-sim-{os.getuid()}-{digest}"
        if len(os.fsencode(folder / f"{name}.sock")) > _SOCKET_PATH_LIMIT:
            folder = Path("/tmp") / folder.name
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{str(folder)!r} belongs to another user")
        folder.chmod(0o700)
        return folder / f"{name}.sock"

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """Hold lock `name` of this directory; the system frees it when the process dies.

        Raises DeviceInUse with the pid of the holder after `wait` seconds.
        """
        holder = self.path / f"{name}.pid"
        lock = FileLock(self.path / f"{name}.lock", mode=0o600)
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise DeviceInUse(self.path, _read_pid(holder)) from None
        try:
            self.write_private(holder, str(os.getpid()))
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()

    def write_running(self, facts: dict[str, Any]) -> None:
        """Publish the running device (addresses and pids, never a token)."""
        self.write_private(self.running_path, RunningDevice.model_validate(facts).model_dump_json())

    def read_running(self) -> dict[str, Any] | None:
        """What `write_running` wrote, or None when nothing whole is published."""
        try:
            return RunningDevice.model_validate_json(self.running_path.read_text()).model_dump()
        except (FileNotFoundError, ValueError):
            return None

    def write_private(self, path: Path, text: str) -> None:
        """Write a 0600 file so that a reader sees the old text or the new, never a part."""
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(fd, "w") as file:
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
