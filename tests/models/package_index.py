"""A package index on this machine whose wheel stops in the middle."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class BrokenIndex:
    """Serves `wheel` as half of its bytes, then hangs until the client is gone, or cuts it off."""

    def __init__(self, wheel: Path, *, hang: bool) -> None:
        self.half_sent = threading.Event()
        self.client_gone = threading.Event()
        self._wheel = wheel
        self._hang = hang
        handler = type("Handler", (_Handler,), {"index": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> BrokenIndex:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(timeout=5)
        self._server.server_close()

    def pip_settings(self) -> dict[str, str]:
        return {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"http://127.0.0.1:{self._server.server_port}/simple/",
            "PIP_RETRIES": "0",
            "PIP_NO_CACHE_DIR": "1",
        }

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if not request.path.endswith(".whl"):
            page = f'<a href="/{self._wheel.name}">{self._wheel.name}</a>'.encode()
            _headers(request, "text/html", len(page))
            request.wfile.write(page)
            return
        content = self._wheel.read_bytes()
        _headers(request, "application/octet-stream", len(content))
        request.wfile.write(content[: len(content) // 2])
        request.wfile.flush()
        self.half_sent.set()
        if self._hang:
            request.connection.settimeout(60)
            try:
                request.connection.recv(1)
            except ConnectionError:
                pass
            except TimeoutError:
                return
            self.client_gone.set()


class _Handler(BaseHTTPRequestHandler):
    index: ClassVar[BrokenIndex]

    def do_GET(self) -> None:
        self.close_connection = True
        self.index.answer(self)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _headers(request: BaseHTTPRequestHandler, kind: str, length: int) -> None:
    request.send_response(200)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(length))
    request.end_headers()
