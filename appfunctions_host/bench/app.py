"""The app whose function is measured: it gives back what it gets."""

from __future__ import annotations

from appfunctions_host import AppFunctionService, app_function_declaration

LOCAL = "com.example.bench.local"
REMOTE = "com.example.bench.remote"
CALLER = "com.example.bench.caller"


class EchoTools(AppFunctionService):
    @app_function_declaration
    async def echo(self, text: str) -> str:
        return text
