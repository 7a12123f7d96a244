"""An assistant that was told by a note to delete the account."""

from __future__ import annotations

import asyncio

from aicore_client import AppFunctionException, AppFunctionManager, ExecuteAppFunctionRequest

SHOP = "com.example.shop"


async def main() -> None:
    for function in ("read_note", "delete_account"):
        arguments = {"orderId": "A-1"} if function == "read_note" else {}
        request = ExecuteAppFunctionRequest(SHOP, f"{SHOP}.Shop#{function}", arguments)
        try:
            response = await AppFunctionManager().execute_app_function(request)
        except AppFunctionException as error:
            print(f"{function}: refused with {error.error_code}")
        else:
            print(f"{function}: {response.return_value}")


asyncio.run(main())
