"""Make the Python code of the protos; `--check` fails when what is committed differs."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "protos"
PACKAGE = ROOT / "aicore_protos"
TOOLCHAIN = "1.85.1"
SERVICES = ("aicore", "appfunctions", "appfunctions_shell", "device")


def generate(out: Path) -> dict[str, str]:
    """Return the text of every generated file by name."""
    protos = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.glob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    arguments = [
        "protoc",
        f"-I{ROOT}",
        f"-I{well_known}",
        f"--python_out={out}",
        f"--pyi_out={out}",
        f"--grpc_python_out={out}",
        *protos,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its message is above")
    made = {path.name: path.read_text() for path in (out / "aicore_protos").iterdir()}
    return {
        name: text
        for name, text in made.items()
        if not name.endswith("_pb2_grpc.py") or name.removesuffix("_pb2_grpc.py") in SERVICES
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    check = parser.parse_args().check
    version = importlib.metadata.version("grpcio-tools")
    if version != TOOLCHAIN:
        print(f"grpcio-tools is {version}, the committed code needs {TOOLCHAIN}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder))
    present = {path.name: path.read_text() for path in PACKAGE.glob("*_pb2*")}
    if check:
        stale = sorted(
            name for name in made.keys() | present.keys() if made.get(name) != present.get(name)
        )
        for name in stale:
            print(f"{name} differs: run scripts/gen_protos.py", file=sys.stderr)
        return 1 if stale else 0
    for name in present.keys() - made.keys():
        (PACKAGE / name).unlink()
    for name, text in made.items():
        (PACKAGE / name).write_text(text)
    print(f"wrote {len(made)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
