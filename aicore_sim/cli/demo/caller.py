"""One app's view of the shop, from a process of that app: what it finds, and what it may run."""

from __future__ import annotations

import asyncio
import json
import sys

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    AppFunctionSearchSpec,
    ExecuteAppFunctionRequest,
)

SHOP = "com.example.shop"
FUNCTIONS = {
    "fetch_order_details": {"orderId": "ORD-8492"},
    "reset_order_cache": {},
    "cancel_order": {"orderId": "ORD-8492"},
}


async def visit(service: str) -> dict[str, dict[str, object]]:
    """Try each function of `service`, by its id where discovery does not show it.

    Returns `{function: {"discovered": bool, "code": int}}`; code 0 is success.
    """
    manager = AppFunctionManager()
    found = await manager.search_app_functions(AppFunctionSearchSpec(package_names=[SHOP]))
    discovered = {metadata.name.function_identifier for metadata in found}
    seen: dict[str, dict[str, object]] = {}
    for method, arguments in FUNCTIONS.items():
        function_id = f"{service}#{method}"
        code = 0
        try:
            await manager.execute_app_function(
                ExecuteAppFunctionRequest(
                    target_package_name=SHOP,
                    function_identifier=function_id,
                    parameters=arguments,
                )
            )
        except AppFunctionException as error:
            code = error.error_code
        seen[method] = {"discovered": function_id in discovered, "code": code}
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(visit(sys.argv[1]))))
