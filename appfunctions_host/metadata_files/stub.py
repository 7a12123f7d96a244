"""Stands for an app whose functions are known by its XML only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.device.packages import PackageStore
from aicore_sim.rpc.status import TEXT_BYTES, cut
from aicore_sim.rpc.values import to_value
from appfunctions_host.codec import STRICT, ArgumentRules
from appfunctions_host.compat import NATIVE_LEVELS_SDK, ProviderEnvironment, verify_caller
from appfunctions_host.metadata_files.stub_file import StubError, StubResult
from appfunctions_host.metadata_files.values import arguments_problem, value_problem
from appfunctions_host.registry import ProviderCall


class StubProvider:
    """Answers for the functions of one package, each answer after the one before."""

    def __init__(
        self,
        package_name: str,
        functions: Sequence[pb.AppFunctionMetadata],
        *,
        packages: PackageStore,
        clock: Clock,
        sdk_int_full: int = NATIVE_LEVELS_SDK,
        rules: ArgumentRules = STRICT,
    ) -> None:
        """Below Android 17.2 the stub verifies callers, as the app's library would."""
        self.package_name = package_name
        self.functions = {one.name.function_identifier: one for one in functions}
        self._packages = packages
        self._clock = clock
        self._sdk_int_full = sdk_int_full
        self._rules = rules
        self._answers: dict[str, Sequence[StubResult]] = {}
        self._calls: dict[str, int] = {}

    @property
    def answered(self) -> tuple[str, ...]:
        """Ids of the functions that have answers."""
        return tuple(self._answers)

    def answer(self, function_identifier: str, answers: Sequence[StubResult]) -> None:
        """What the function gives from now on. Raises StubError for what it cannot give."""
        for result in answers:
            problem = _problem(self.functions[function_identifier], result)
            if problem is not None:
                raise StubError(f"{function_identifier}: {problem}")
        self._answers[function_identifier] = answers

    def is_current(self) -> bool:
        return self._packages.get(self.package_name) is not None

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        identifier = call.function_identifier
        metadata = self.functions[identifier]
        package = self._packages.get(self.package_name)
        environment = ProviderEnvironment(
            sdk_int_full=self._sdk_int_full, uid=package.uid if package is not None else 0
        )
        verify_caller(metadata, call.verification, environment)
        problem = arguments_problem(metadata, call.parameters, self._rules)
        if problem is not None:
            text = cut(f"{identifier}: {problem}", TEXT_BYTES)
            raise AppFunctionError(AppFunctionCode.INVALID_ARGUMENT, text)
        return await self._give(self._next(identifier), call.parameters)

    def _next(self, identifier: str) -> StubResult:
        answers: Sequence[StubResult] = self._answers.get(identifier, ())
        if not answers:
            raise AppFunctionError(
                AppFunctionCode.APP_UNKNOWN_ERROR,
                f"{identifier} is declared by XML only; give it a result with --stub FILE",
            )
        number = self._calls.get(identifier, 0)
        self._calls[identifier] = number + 1
        return answers[min(number, len(answers) - 1)]

    async def _give(self, answer: StubResult, parameters: types_pb2.ObjectValue) -> types_pb2.Value:
        if answer.delay:
            await self._clock.sleep(answer.delay)
        if answer.error is not None:
            raise AppFunctionError(answer.error.code, answer.error.message)
        if answer.echo:
            given: Mapping[str, types_pb2.Value]
            given = {field.name: field.value for field in parameters.fields}
            nothing = types_pb2.Value(null_value=types_pb2.NULL_VALUE)
            return given.get(answer.echo, nothing)
        return to_value(answer.value)


def _problem(metadata: pb.AppFunctionMetadata, answer: StubResult) -> str | None:
    if answer.error is not None:
        return None
    if answer.echo:
        names = [one.name for one in metadata.parameters]
        if answer.echo in names:
            return None
        return f"echo: there is no parameter {answer.echo!r}; it has {', '.join(names) or 'none'}"
    try:
        value = to_value(answer.value)
    except ValueError as error:
        return f"value: {error}"
    return value_problem(metadata, value)
