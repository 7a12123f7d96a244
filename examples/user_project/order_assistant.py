"""The app: a model that answers, an agent that cancels orders, and the functions of the shop."""

from __future__ import annotations

from aicore_client import (
    Agent,
    AgentRunner,
    AppFunctionAgentTools,
    Content,
    DeviceClock,
    DeviceConnection,
    DownloadStatus,
    FeatureStatus,
    GenAiException,
    GenerativeModel,
    HitlConfirmationTool,
)
from appfunctions_host import (
    AppFunctionMetadata,
    AppFunctionService,
    app_function_access_level,
    app_function_declaration,
    app_function_service_entry_point,
)

PACKAGE = "com.example.shop"
OPEN_THE_APP = "Open the app to get an answer."
PAUSE_SECONDS = 0.2
ATTEMPTS = 3

cancelled: list[str] = []


@app_function_service_entry_point(service_name="Orders", app_function_xml_file_name="orders")
class Orders(AppFunctionService):
    @app_function_access_level(
        level=AppFunctionMetadata.ACCESS_LEVEL_SELF, is_compat_enforcement_enabled=True
    )
    @app_function_declaration(is_described_by_kdoc=True)
    def cancel_order(self, orderId: str) -> str:
        """Cancels an order.

        Args:
            orderId: The order's identifier
        """
        cancelled.append(orderId)
        return f"{orderId} is cancelled"


async def answer(model: GenerativeModel, clock: DeviceClock, question: str) -> str:
    """The model's answer; BUSY is tried again, and in the background the user is told why."""
    if not await prepare(model):
        return "The model is not there yet."
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return (await model.generate_content(question)).candidates[0].text
        except GenAiException as error:
            if error.error_code == GenAiException.ErrorCode.BACKGROUND_USE_BLOCKED:
                return OPEN_THE_APP
            if error.error_code != GenAiException.ErrorCode.BUSY or attempt == ATTEMPTS:
                raise
            await clock.sleep(max(error.retry_delay.total_seconds(), PAUSE_SECONDS))
    raise AssertionError("unreachable")


async def prepare(model: GenerativeModel) -> bool:
    """Whether the model can be used, after a download where it was missing."""
    status = await model.check_status()
    if status == FeatureStatus.DOWNLOADABLE:
        async for item in model.download():
            if isinstance(item, DownloadStatus.DownloadFailed):
                return False
        status = await model.check_status()
    return status == FeatureStatus.AVAILABLE


async def user_agrees(tool: str, args: object) -> bool:
    """The dialog of the app. Here nobody ever says yes."""
    return False


async def run_agent(connection: DeviceConnection, question: str) -> str:
    """The agent's answer; it asks the user before it cancels anything."""
    tools = [
        HitlConfirmationTool(tool, user_agrees, connection=connection)
        for tool in await AppFunctionAgentTools.discover("cancel_order", connection=connection)
    ]
    agent = Agent.builder().set_instructions("You look after orders.").add_tools(*tools).build()
    async with AgentRunner(agent, temperature=0.0, connection=connection) as runner:
        session = runner.get_or_create_session("orders")
        content = Content.builder().text(question).build()
        return "".join([text async for text in session.run_async(content).text_messages()])
