"""The model itself, without an agent around it.

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/GenerativeModel
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from aicore_client._boundary import Service, stream, unary
from aicore_client._wire import model_selection, request_to_wire, response_from_wire
from aicore_client.connection import DeviceConnection, default_connection
from aicore_client.content import Content, FunctionCall, TextPart
from aicore_client.schema import FunctionDeclaration
from aicore_protos import aicore_pb2
