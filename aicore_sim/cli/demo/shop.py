"""The shop app: three functions, one of each access level."""

from __future__ import annotations

from appfunctions_host.annotations import (
    AppFunctionMetadata,
    AppFunctionService,
    app_function_access_level,
    app_function_declaration,
    app_function_serializable,
    app_function_service_entry_point,
)


@app_function_serializable
class OrderDetails:
    """Details of an order."""

    orderId: str
    status: str
    eta: str


@app_function_service_entry_point(
    service_name="OrderAppFunctionService", app_function_xml_file_name="order_app_functions"
)
class OrderTools(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    async def fetch_order_details(self, orderId: str) -> OrderDetails:
        """Fetches details and delivery status for an in-app order.

        Args:
            orderId: The alphanumeric order identifier
        """
        return OrderDetails(orderId=orderId, status="Out for delivery", eta="2:30 PM")

    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SYSTEM, is_compat_enforcement_enabled=True
    )
    @app_function_declaration(is_described_by_kdoc=True)
    def reset_order_cache(self) -> str:
        """Empties the cache of orders. For system surfaces."""
        return "Order cache emptied."

    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SELF, is_compat_enforcement_enabled=True
    )
    @app_function_declaration(is_described_by_kdoc=True)
    def cancel_order(self, orderId: str) -> str:
        """Cancels an order. Restricted strictly to this app's internal agent.

        Args:
            orderId: The order identifier to cancel
        """
        return f"Order {orderId} cancelled successfully."
