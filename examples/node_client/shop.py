"""The shop's functions. They may be in another language than its agent: gRPC is between them."""

from __future__ import annotations

from appfunctions_host import (
    AppFunctionService,
    app_function_declaration,
    app_function_service_entry_point,
)

ORDERS = {"ORD-8492": "Out for delivery, 2:30 PM"}


@app_function_service_entry_point(service_name="ShopService", app_function_xml_file_name="shop")
class Shop(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    def fetch_order_details(self, orderId: str) -> str:
        """Fetches the status of an order.

        Args:
            orderId: The order's identifier
        """
        if orderId not in ORDERS:
            raise ValueError(f"there is no order {orderId}")
        return ORDERS[orderId]
