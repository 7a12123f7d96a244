"""An app for the tests: one function of each level, and some that misbehave."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading

from appfunctions_host import (
    AppFunctionException,
    AppFunctionMetadata,
    AppFunctionService,
    app_function_access_level,
    app_function_declaration,
    app_function_serializable,
)

PACKAGE = "com.example.shop"
FETCH = f"{PACKAGE}.OrderTools#fetch_order_details"
RESET = f"{PACKAGE}.OrderTools#reset_order_cache"
CANCEL = f"{PACKAGE}.OrderTools#cancel_order"
OFF = f"{PACKAGE}.OrderTools#switched_off"
HANG = f"{PACKAGE}.TroubleTools#hang"
ECHO = f"{PACKAGE}.TroubleTools#echo"
RAISES = f"{PACKAGE}.TroubleTools#raises"
REPORTS = f"{PACKAGE}.TroubleTools#reports"
BLOCKS_LOOP = f"{PACKAGE}.TroubleTools#blocks_the_loop"
EXITS = f"{PACKAGE}.TroubleTools#exits"
HANG_IN_THREAD = f"{PACKAGE}.TroubleTools#hang_in_thread"
HANG_SYNCHRONOUSLY = f"{PACKAGE}.TroubleTools#hang_synchronously"
NOTHING = f"{PACKAGE}.TroubleTools#nothing"
LONG_ERROR = f"{PACKAGE}.TroubleTools#long_error"
BIG = f"{PACKAGE}.TroubleTools#big"
IMPATIENT = f"{PACKAGE}.TroubleTools#impatient"
START_PROGRAMS = f"{PACKAGE}.TroubleTools#start_programs"
INTERRUPTS = f"{PACKAGE}.TroubleTools#interrupts"

released = threading.Event()
"""Lets `blocks_the_loop` return; for an app inside the test's process."""


@app_function_serializable(is_described_by_kdoc=True)
class OrderDetails:
    """Structured details for an order."""

    orderId: str
    """The order's id"""
    status: str
    itemCount: int
    eta: str | None = None


class OrderTools(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    async def fetch_order_details(self, orderId: str) -> OrderDetails:
        """Fetches details and delivery status for a customer order by ID.

        Args:
            orderId: The alphanumeric order identifier (for example, ORD-8492)
        """
        return OrderDetails(orderId=orderId, status="Out for delivery", itemCount=2)

    @app_function_declaration
    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SYSTEM, is_compat_enforcement_enabled=False
    )
    def reset_order_cache(self) -> str:
        return "reset"

    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SELF, is_compat_enforcement_enabled=True
    )
    @app_function_declaration()
    def cancel_order(self, orderId: str) -> str:
        return f"cancelled {orderId}"

    @app_function_declaration(is_enabled=False)
    def switched_off(self) -> bool:
        return True


class MoreTools(OrderTools):
    """A second service with the same method names."""


class TroubleTools(AppFunctionService):
    @app_function_declaration
    async def hang(self) -> None:
        """Says on standard output that it has begun and that it was cancelled."""
        print("ENTERED", flush=True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("CANCELLED", flush=True)
            raise

    @app_function_declaration(timeout_seconds=0.05)
    async def impatient(self) -> None:
        await asyncio.Event().wait()

    @app_function_declaration
    def start_programs(self, count: int) -> int:
        """Starts other programs and reads what they print."""
        return sum(
            len(subprocess.run(["echo", "x"], capture_output=True, check=True).stdout)
            for _ in range(count)
        )

    @app_function_declaration
    async def hang_in_thread(self) -> None:
        print("ENTERED", flush=True)
        await asyncio.to_thread(threading.Event().wait)

    @app_function_declaration
    def hang_synchronously(self) -> None:
        print("ENTERED", flush=True)
        threading.Event().wait()

    @app_function_declaration
    def echo(self, data: bytes) -> bytes:
        return data

    @app_function_declaration
    def raises(self) -> str:
        raise KeyError("no such order")

    @app_function_declaration
    def reports(self) -> str:
        raise AppFunctionException(3501, "not in this country", {"country": "XX"})

    @app_function_declaration
    def long_error(self, text: str, count: int, extra: int) -> str:
        raise AppFunctionException(3501, text * count, {"hint": "h" * extra} if extra else None)

    @app_function_declaration
    def big(self, size: int) -> bytes:
        return bytes(size)

    @app_function_declaration
    async def interrupts(self) -> str:
        raise KeyboardInterrupt

    @app_function_declaration
    async def blocks_the_loop(self) -> str:
        released.wait(5)
        return "done"

    @app_function_declaration
    def exits(self) -> str:
        os._exit(7)

    @app_function_declaration
    def nothing(self) -> None:
        return
