"""`chat`: a conversation with an app's agent, piped and at a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.processes import BOOT_TIMEOUT, COMMAND, script

ANSWERED = """
- function_calls:
    - {name: fetch_order_details, args: {orderId: A-1}}
- text: It arrives at 2:30 PM.
  usage: {input_tokens: 90, cached_input_tokens: 40, output_tokens: 10}
- text: You are welcome.
- text: Hello again.
"""


def talk(model: str, *said: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "chat", "--model", model, *options],
        input="\n".join(said),
        capture_output=True,
        text=True,
        check=False,
        timeout=BOOT_TIMEOUT,
    )


class Terminal:
    """The user's side of a terminal that a chat runs in."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""
        self._read = 0

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until(self, wanted: str) -> None:
        """Reads until the text has come after all that was waited for before."""
        while (found := self.seen.find(wanted, self._read)) < 0:
            ready, _, _ = select.select([self._descriptor], [], [], BOOT_TIMEOUT)
            assert ready, f"{wanted!r} did not come: {self.seen}"
            self.seen += os.read(self._descriptor, 4096).decode(errors="replace")
        self._read = found + len(wanted)


@contextmanager
def chat_in_terminal(model: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "chat", "--model", model],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Its own terminal, so that Ctrl-C is a signal to it.
        preexec_fn=lambda: os.close(os.open(os.ttyname(theirs), os.O_RDWR)),
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        os.close(ours)  # hangs up
        try:
            process.wait(BOOT_TIMEOUT)
        finally:
            process.kill()


@pytest.mark.requirement("simulator.command.chat")
def test_a_chat_shows_calls_answers_and_what_they_took(tmp_path: Path) -> None:
    model = script(tmp_path / "script.yaml", ANSWERED)
    said = ("Where is my order A-1?", "/usage", "Thanks", "/new", "/usage", "Hi", "/tools")

    done = talk(model, *said)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "nano-v3, 8,192 tokens. /help lists the commands."
    assert lines[1:5] == [
        '  → fetch_order_details({"orderId": "A-1"})',
        '  ← {"orderId": "A-1", "status": "Out for delivery", "eta": "2:30 PM"}',
        "It arrives at 2:30 PM.",
        "100 of 8,192 tokens: 90 in (40 cached), 10 out.",
    ]
    assert lines[5:9] == [
        "You are welcome.",
        "A new conversation.",
        "Nothing yet, of 8,192 tokens.",
        "Hello again.",
    ]
    assert [line.partition(":")[0] for line in lines[9:]] == [
        "cancel_order",
        "fetch_order_details",
        "reset_order_cache",
    ]


def test_a_failed_turn_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    model = script(
        tmp_path / "script.yaml", "- error: {code: BUSY}\n- text: ''\n- text: Now I can.\n"
    )

    done = talk(model, "Hi", "Hi?", "Hi!", "/no", "/quit", "not sent")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "BUSY" in lines[1]
    assert lines[2:4] == ["(an empty answer; the turn is not remembered)", "Now I can."]
    assert lines[4] == "There is no command '/no'."
    assert "not sent" not in done.stdout


def test_an_app_without_functions_says_how_to_get_some(tmp_path: Path) -> None:
    model = script(tmp_path / "script.yaml", "[]\n")
    done = talk(model, "/tools", options=("--as", "com.example.other"))
    assert done.returncode == 0, done.stderr
    assert "This app has no functions" in done.stdout


@pytest.mark.requirement("simulator.command.chat.stop")
def test_an_answer_is_stopped_by_ctrl_c_and_by_a_command(tmp_path: Path) -> None:
    slow = "- chunks: ['Once ', 'upon']\n  chunk_delay: 3600\n"
    model = script(tmp_path / "script.yaml", f"{slow}{slow}- text: Still here.\n")

    with chat_in_terminal(model) as (terminal, process):
        terminal.until("> ")
        terminal.type("A story\n")
        terminal.until("Once ")
        terminal.type("\x03")
        terminal.until("(stopped)")
        terminal.type("Another\n")
        terminal.until("Once ")
        terminal.type("/cancel\n")
        terminal.until("(stopped)")
        terminal.type("Are you there?\n")
        terminal.until("Still here.")
        terminal.until("> ")
        terminal.type("\x03")  # with nothing to stop, it ends
        assert process.wait(BOOT_TIMEOUT) == 0
