"""Models of the Hugging Face Hub, from a stand-in on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aicore_sim.cli.main import app
from aicore_sim.inference.engine import Engine
from aicore_sim.models.catalogue import find_model, hub_home, list_models
from aicore_sim.models.errors import ModelNotFound, PullError
from aicore_sim.models.hub import pull_from_hub
from aicore_sim.models.hub_name import HubName, parse_hub_name
from aicore_sim.models.installation import NoProgress
from aicore_sim.models.manifest import read_manifest
from aicore_sim.models.pull import remove, verify
from tests.inference.requests import ask
from tests.inference.synthetic import build_synthetic_model
from tests.models.hub_server import COMMIT, Hub, serving

NAME = "hf:someone/tiny:cpu/int4"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, tiny_gguf: Path) -> Path:
    root = tmp_path_factory.mktemp("repository")
    (root / "cpu").mkdir()
    folder = root / "cpu" / "int4"
    build_synthetic_model(folder)
    (folder / "setup.py").write_text("raise SystemExit('run')", encoding="utf-8")
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    (root / "README.md").write_text("# tiny", encoding="utf-8")
    for name in ("one.gguf", "two.gguf"):
        (root / name).write_bytes(tiny_gguf.read_bytes())
    (root / "only").mkdir()
    (root / "only" / "tiny.gguf").write_bytes(tiny_gguf.read_bytes())
    (root / "texts").mkdir()
    (root / "texts" / "notes.txt").write_text("nothing", encoding="utf-8")
    return root


@pytest.fixture
def hub(repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(repository) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        yield served


def pull(text: str) -> Path:
    return pull_from_hub(parse_hub_name(text), NoProgress()).path


def refusal(text: str) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(text)
    home = hub_home(parse_hub_name(text))
    assert [path.name for path in home.iterdir() if path.name.startswith(("v", ".tmp"))] == []
    return caught.value


@pytest.mark.requirement("simulator.model.hub")
def test_a_folder_is_pulled_pinned_and_generates_without_the_hub(hub: Hub) -> None:
    path = pull(NAME)

    stored = read_manifest(path)
    assert (stored.requirement, stored.licence) == (f"hf:someone/tiny@{COMMIT}", "apache-2.0")
    assert stored.name == NAME
    assert not (path / "setup.py").exists()
    asked = len(hub.asked)
    assert find_model(NAME) == path
    assert verify(NAME) == ()
    assert pull_from_hub(parse_hub_name(NAME), NoProgress()).already_there
    assert Engine(path, threads=1).encode(ask("Hello"))
    assert len(hub.asked) == asked


@pytest.mark.requirement("simulator.model.hub")
def test_a_gguf_file_is_converted(hub: Hub) -> None:
    path = pull("hf:someone/tiny:only")

    assert read_manifest(path).source_file == "only/tiny.gguf"
    assert (path / "genai_config.json").is_file()
    assert pull("hf:someone/tiny@v1:one.gguf") != path


@pytest.mark.requirement("simulator.model.hub-resume")
def test_a_download_that_was_cut_goes_on_where_it_stopped(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "only/tiny.gguf"
    half = len(hub.files[name]) // 2
    hub.cut[name] = half

    found = refusal("hf:someone/tiny:only")

    assert found.failure == "download"
    assert "goes on where it stopped" in found.hint
    hub.cut.clear()
    hub.asked.clear()
    pull("hf:someone/tiny:only")
    [got] = [path for method, path in hub.asked if method == "GET" and "tiny.gguf" in path]
    assert got.endswith(f"bytes={half}-")
    home = hub_home(parse_hub_name("hf:someone/tiny:only"))
    assert list(home.glob("partial-*")) == []


@pytest.mark.requirement("simulator.model.hub-checked")
@pytest.mark.parametrize("forged", ["cpu/int4/model.onnx", "cpu/int4/tokenizer.json"])
def test_a_file_that_is_not_what_the_hub_states_is_refused(hub: Hub, forged: str) -> None:
    hub.forged.add(forged)

    found = refusal(NAME)

    assert found.failure == "checksum"
    assert repr(forged) in found.message
    hub.forged.clear()
    pull(NAME)


@pytest.mark.requirement("simulator.model.hub-refusals")
@pytest.mark.parametrize(
    ("text", "failure", "said"),
    [
        ("hf:someone/tiny", "source", "hf:someone/tiny:one.gguf"),
        ("hf:someone/tiny", "source", "hf:someone/tiny:cpu/int4"),
        ("hf:someone/tiny@v1:three.gguf", "source", "hf:someone/tiny@v1:one.gguf"),
        ("hf:someone/tiny:nowhere", "source", "neither 'genai_config.json' nor a GGUF file"),
        ("hf:someone/other", "no_access", "HF_TOKEN"),
        ("hf:someone/tiny@v9", "not_found", "'v9'"),
    ],
)
def test_what_is_not_there_is_named(hub: Hub, text: str, failure: str, said: str) -> None:
    found = refusal(text)

    assert found.failure == failure
    assert said in str(found)


@pytest.mark.requirement("simulator.model.hub-refusals")
@pytest.mark.parametrize(
    ("status", "code", "failure"),
    [(403, "GatedRepo", "no_access"), (401, "", "no_access"), (500, "", "download")],
)
def test_a_hub_that_refuses_is_a_typed_error(
    hub: Hub, status: int, code: str, failure: str
) -> None:
    hub.refuse, hub.code = status, code

    assert refusal(NAME).failure == failure


@pytest.mark.requirement("simulator.model.hub-refusals")
def test_without_a_network_the_error_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")

    found = refusal(NAME)

    assert found.failure == "download"
    assert "try again" in found.hint


@pytest.mark.requirement("simulator.model.hub-refusals")
def test_without_the_library_the_extra_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)

    found = refusal(NAME)

    assert (found.failure, found.hint) == ("no_hub", "Run `pip install 'aicore-sim[hub]'`.")


@pytest.mark.requirement("simulator.model.hub")
def test_the_commands_pull_list_verify_and_remove(hub: Hub) -> None:
    hub.licence = None
    run = CliRunner().invoke

    pulled = run(app, ["models", "pull", NAME])
    listed = json.loads(run(app, ["models", "list", "--json"]).stdout)
    verified = run(app, ["models", "verify", NAME])
    removed = run(app, ["models", "remove", NAME])

    assert pulled.exit_code == 0, pulled.output
    assert f"from hf:someone/tiny@{COMMIT}, licence: unknown" in pulled.stdout
    assert [model["state"] for model in listed if model["name"] == NAME] == ["ready"]
    assert (verified.stdout, removed.exit_code) == (f"{NAME} is whole\n", 0)
    assert [status for status in list_models() if status.model.name == NAME] == []
    with pytest.raises(ModelNotFound, match="models pull hf:someone/tiny:cpu/int4"):
        find_model(NAME)
    assert remove(NAME) == 0


@pytest.mark.parametrize(
    "text",
    ["hf:", "hf:tiny", "hf:a/b/c", "hf:a/b@", "hf:a/b:../x", "hf:a/b:x//y", "hf:a/..", "hf:a b/c",
     "hf:a/b@../../x", "hf:a/b:x\ny"],
)  # fmt: skip
def test_a_name_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ModelNotFound):
        parse_hub_name(text)


def test_every_name_has_a_folder_of_its_own() -> None:
    texts = ("hf:a/b", "hf:a/b@v1", "hf:a/b:v1", "hf:a--b/c", "hf:a/b--c", "hf:A/b")
    names = [parse_hub_name(text) for text in texts]

    assert len({name.folder for name in names}) == len(texts)
    assert [name.text for name in names] == list(texts)
    assert parse_hub_name("hf:a/b@main:x/") == HubName(owner="a", repo="b", path="x")
