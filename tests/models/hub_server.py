"""A stand-in for the Hugging Face Hub: what `huggingface_hub` asks of it, on loopback.

https://huggingface.co/docs/hub/api
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """One repository, `someone/tiny`, with the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        self.licence: str | None = "apache-2.0"
        self.refuse: int | None = None
        """A status for every request."""
        self.code = ""
        """What the Hub calls that status."""
        self.forged: set[str] = set()
        """Files whose checksum is stated wrongly."""
        self.cut: dict[str, int] = {}
        """Bytes of a file after which every connection ends."""
        self.asked: list[tuple[str, str]] = []
        """Method and path; for files the range, too."""
        self.endpoint = ""

    def info(self) -> dict[str, Any]:
        return {
            "id": "someone/tiny",
            "modelId": "someone/tiny",
            "sha": COMMIT,
            "private": False,
            "tags": [],
            "downloads": 0,
            "cardData": {"license": self.licence} if self.licence else {},
            "siblings": [self._sibling(name, content) for name, content in self.files.items()],
        }

    def _sibling(self, name: str, content: bytes) -> dict[str, Any]:
        forged = b"!" if name in self.forged else b""
        made: dict[str, Any] = {
            "rfilename": name,
            "size": len(content),
            "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content + forged).hexdigest(),
        }
        if large(name):
            digest = hashlib.sha256(content + forged).hexdigest()
            made["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
        return made


def large(name: str) -> bool:
    return name.endswith((".onnx", ".data", ".gguf"))


@contextmanager
def serving(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self._file(send=False)

        def do_GET(self) -> None:
            if not self.path.startswith("/api/models/"):
                self._file(send=True)
                return
            hub.asked.append(("GET", self.path))
            if self._refused():
                return
            path, _, revision = self.path.partition("?")[0].partition("/revision/")
            if path != "/api/models/someone/tiny":
                self._error(404, "RepoNotFound")
            elif unquote(revision) not in ("main", "v1", COMMIT, ""):
                self._error(404, "RevisionNotFound")
            else:
                self._body(200, json.dumps(hub.info()).encode())

        def _file(self, *, send: bool) -> None:
            hub.asked.append((self.command, f"{self.path} {self.headers.get('Range') or ''}"))
            if self._refused():
                return
            start = f"/someone/tiny/resolve/{COMMIT}/"
            name = unquote(self.path.removeprefix(start))
            if not self.path.startswith(start) or name not in hub.files:
                self._error(404, "EntryNotFound")
                return
            content = hub.files[name]
            first = 0
            if wanted := self.headers.get("Range"):
                first = int(wanted.removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if wanted else 200)
            self.send_header("X-Repo-Commit", COMMIT)
            digest = hashlib.sha256(content).hexdigest() if large(name) else f"id-{len(content)}"
            self.send_header("ETag", f'"{digest}"')
            self.send_header("Accept-Ranges", "bytes")
            if wanted:
                self.send_header(
                    "Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}"
                )
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            if not send:
                return
            end = hub.cut.get(name, len(content))
            self.wfile.write(content[first:end])
            if end < len(content):
                self.close_connection = True

        def _refused(self) -> bool:
            if hub.refuse is None:
                return False
            self._error(hub.refuse, hub.code)
            return True

        def _error(self, status: int, code: str) -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _body(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
