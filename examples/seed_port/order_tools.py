"""Tools of the shop: one for everybody whom the platform trusts, one for the shop's own agent."""

from __future__ import annotations

import asyncio

from appfunctions_host import (
    AppFunctionMetadata,
    AppFunctionService,
    app_function_access_level,
    app_function_declaration,
    app_function_serializable,
    app_function_service_entry_point,
)


@app_function_serializable
class OrderDetails:
    orderId: str
    status: str
    eta: str


@app_function_service_entry_point(
    service_name="OrderAppFunctionService",
    app_function_xml_file_name="order_app_functions",
)
class OrderTools(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    async def fetch_order_details(self, orderId: str) -> OrderDetails:
        """Fetches details and delivery status for an in-app order.

        Args:
            orderId: The alphanumeric order identifier
        """
        # Query local database or call your backend API
        return await asyncio.to_thread(
            OrderDetails,
            orderId=orderId,
            status="Out for delivery",
            eta="2:30 PM",
        )

    @app_function_declaration(is_described_by_kdoc=True)
    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SELF,
        is_compat_enforcement_enabled=True,
    )
    def cancel_order(self, orderId: str) -> str:
        """Cancels an order. Restricted strictly to this app's internal agent.

        Args:
            orderId: The order identifier to cancel
        """
        # Only your app's internal agent can invoke this function
        return f"Order {orderId} cancelled successfully."
