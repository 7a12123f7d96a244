"""Values against the types of metadata alone, where no Python class stands behind them.

The rules and texts are those of `codec`, which checks against classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from appfunctions_host.codec import STRICT, ArgumentRules
from appfunctions_host.limits import MAX_DEPTH
from appfunctions_host.patterns import PatternMatcher, PatternType

Components = Mapping[str, pb.DataTypeMetadata]

_RANGES = {pb.TYPE_INT: (-(2**31), 2**31 - 1), pb.TYPE_LONG: (-(2**63), 2**63 - 1)}
_KINDS = {
    pb.TYPE_BOOLEAN: ("bool_value",),
    pb.TYPE_BYTES: ("bytes_value",),
    pb.TYPE_STRING: ("string_value",),
    pb.TYPE_INT: ("int_value",),
    pb.TYPE_LONG: ("int_value",),
    pb.TYPE_FLOAT: ("double_value", "int_value"),
    pb.TYPE_DOUBLE: ("double_value", "int_value"),
    pb.TYPE_ARRAY: ("list_value",),
    pb.TYPE_OBJECT: ("object_value",),
    pb.TYPE_ALL_OF: ("object_value",),
}
_NAMES = {
    pb.TYPE_BYTES: "ByteArray",
    pb.TYPE_ARRAY: "List",
    pb.TYPE_OBJECT: "object",
    pb.TYPE_ALL_OF: "object",
    pb.TYPE_ONE_OF: "object",
    pb.TYPE_UNIT: "Unit",
}
_FOUND = {
    None: "nothing",
    "null_value": "null",
    "int_value": "Long",
    "double_value": "Double",
    "bytes_value": "ByteArray",
}


def arguments_problem(
    metadata: pb.AppFunctionMetadata,
    parameters: types_pb2.ObjectValue,
    rules: ArgumentRules = STRICT,
) -> str | None:
    """Why a provider's library would refuse the arguments (1001), or None."""
    checker = _Checker(metadata.components, "Parameter", rules)
    wanted = {one.name: one.data_type for one in metadata.parameters}
    required = [one.name for one in metadata.parameters if one.is_required]
    return checker.fields(parameters, wanted, required, "", MAX_DEPTH)


def value_problem(metadata: pb.AppFunctionMetadata, value: types_pb2.Value) -> str | None:
    """Why the value is no result of the function, or None."""
    if not metadata.HasField("response"):
        return None
    checker = _Checker(metadata.components, "value", STRICT)
    return checker.value(value, metadata.response.value_type, "result", MAX_DEPTH)


class _Checker:
    def __init__(self, components: Components, noun: str, rules: ArgumentRules) -> None:
        self._components = components
        self._noun = noun
        self._rules = rules

    def fields(
        self,
        found: types_pb2.ObjectValue,
        wanted: Mapping[str, pb.DataTypeMetadata],
        required: Iterable[str],
        prefix: str,
        depth: int,
    ) -> str | None:
        given: set[str] = set()
        for field in found.fields:
            path = prefix + field.name
            if field.name in given:
                return f"{self._noun} {path!r} is given twice"
            given.add(field.name)
            if field.name not in wanted:
                if self._rules.ignore_unknown:
                    continue
                names = ", ".join(wanted) or "none"
                return f"{self._noun} {path!r} is unknown; the declared ones are: {names}"
            problem = self.value(field.value, wanted[field.name], path, depth - 1)
            if problem is not None:
                return problem
        for name in required:
            data = wanted.get(name)
            if name not in given and data is not None and not data.is_nullable:
                return self._wrong(data, prefix + name, "it is missing")
        return None

    def value(
        self, value: types_pb2.Value, data: pb.DataTypeMetadata, path: str, depth: int
    ) -> str | None:
        if depth < 0:
            return f"{self._noun} {path!r} nests too deep"
        kind = value.WhichOneof("kind")
        if kind == "null_value" and (data.is_nullable or data.type == pb.TYPE_UNIT):
            return None
        match data.type:
            case pb.TYPE_PARCELABLE if kind not in (None, "null_value"):
                return None  # Android's own object, which no description says anything of
            case pb.TYPE_REFERENCE:
                return self._referred(value, data, path, depth)
            case pb.TYPE_ONE_OF:
                return self._one_of(value, data, path, depth)
        if kind not in _KINDS.get(data.type, ()):
            shown = _FOUND.get(kind, str(kind).removesuffix("_value").capitalize())
            return self._wrong(data, path, f"was {shown}")
        return self._inside(value, data, path, depth) or self._constraint(value, data, path)

    def _inside(
        self, value: types_pb2.Value, data: pb.DataTypeMetadata, path: str, depth: int
    ) -> str | None:
        match data.type:
            case pb.TYPE_OBJECT | pb.TYPE_ALL_OF:
                wanted, required = self._properties(data, depth)
                return self.fields(value.object_value, wanted, required, f"{path}.", depth)
            case pb.TYPE_ARRAY if data.HasField("item_type"):
                for index, item in enumerate(value.list_value.values):
                    problem = self.value(item, data.item_type, f"{path}[{index}]", depth - 1)
                    if problem is not None:
                        return problem
            case pb.TYPE_INT | pb.TYPE_LONG:
                low, high = _RANGES[data.type]
                if not low <= value.int_value <= high:
                    return self._wrong(data, path, f"was {value.int_value}, which does not fit")
        return None

    def _referred(
        self, value: types_pb2.Value, data: pb.DataTypeMetadata, path: str, depth: int
    ) -> str | None:
        """A reference says itself whether null is allowed."""
        referred = self._components[data.data_type_reference]
        if value.WhichOneof("kind") == "null_value":
            return self._wrong(data, path, "was null")
        return self.value(value, referred, path, depth - 1)

    def _one_of(
        self, value: types_pb2.Value, data: pb.DataTypeMetadata, path: str, depth: int
    ) -> str | None:
        problems = []
        for choice in data.one_of:
            problem = self.value(value, choice, path, depth - 1)
            if problem is None:
                return None
            problems.append(problem)
        return f"{self._noun} {path!r} fits none of its types ({'; '.join(problems)})"

    def _properties(
        self, data: pb.DataTypeMetadata, depth: int
    ) -> tuple[dict[str, pb.DataTypeMetadata], list[str]]:
        """Those of an object, and of all parts of an all-of."""
        wanted = {part.name: part.data_type for part in data.properties}
        required = list(data.required)
        if depth > 0:
            for part in data.all_of:
                whole = self._components.get(part.data_type_reference, part)
                inner, needed = self._properties(whole, depth - 1)
                wanted.update(inner)
                required += needed
        return wanted, required

    def _constraint(
        self, value: types_pb2.Value, data: pb.DataTypeMetadata, path: str
    ) -> str | None:
        if not self._rules.enforce_constraints or not (data.enum_values or data.patterns):
            return None
        is_text = value.WhichOneof("kind") == "string_value"
        text = value.string_value if is_text else str(value.int_value)
        if data.enum_values and text not in data.enum_values:
            problem = f"{text!r} is none of {', '.join(map(repr, data.enum_values))}"
        elif data.patterns and not any(
            PatternMatcher(one.value, PatternType(one.type)).matches(text) for one in data.patterns
        ):
            problem = f"{text!r} matches none of {', '.join(repr(p.value) for p in data.patterns)}"
        else:
            return None
        return f"{self._noun} {path!r} is not allowed: {problem}"

    def _wrong(self, data: pb.DataTypeMetadata, path: str, but: str) -> str:
        if data.type == pb.TYPE_REFERENCE:
            name = data.data_type_reference.rpartition(".")[2]
        else:
            plain = pb.DataType.Name(data.type).removeprefix("TYPE_").capitalize()
            name = _NAMES.get(data.type, plain)
        return f"{self._noun} {path!r} should be the type of {name}, but {but}"
