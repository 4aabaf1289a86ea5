"""`fitroom run` on a terminal: the script sees one, and keys reach it once."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest

RUN = ("-m", "fitroom", "run")


def on_a_terminal(folder: Path, script: str, keys: dict[str, bytes], *prefix: str) -> tuple[str, int]:
    """What a script shows on a terminal, and its end; `keys` are pressed when their words appear."""
    (folder / "script.py").write_text(script)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, *prefix, "script.py"])
    seen, waiting, until = b"", dict(keys), time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # its last process has gone
                break
        for words in [words for words in waiting if words.encode() in seen]:
            os.write(terminal, waiting.pop(words))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return seen.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning")
class TestTerminal:
    def test_the_script_sees_a_terminal_of_the_same_size(self, tmp_path: Path) -> None:
        script = """
import os, sys
print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)])
print(os.get_terminal_size(1) == os.get_terminal_size(2))
sys.stderr.write("10 %\\r20 %\\n")
name = input("name? ")
print("hello", name)
"""
        seen, code = on_a_terminal(tmp_path, script, {"name? ": b"ada\n"}, *RUN)
        assert "[True, True, True]\nTrue\n" in seen
        assert "10 %\r20 %\n" in seen
        assert "hello ada\n" in seen
        assert code == 0

    def test_ctrl_c_reaches_the_script_once(self, tmp_path: Path) -> None:
        script = """
import time
count = 0
until = time.monotonic() + 5
while time.monotonic() < until:
    try:
        print("ready", flush=True)
        time.sleep(0.1)
    except KeyboardInterrupt:
        count += 1
        until = time.monotonic() + 1
print("interrupted", count)
"""
        seen, code = on_a_terminal(tmp_path, script, {"ready": b"\x03"}, *RUN)
        assert "interrupted 1\n" in seen
        assert code == 0

    def test_a_key_is_told_from_a_signal_that_someone_sent(self, tmp_path: Path) -> None:
        # A key reaches every process on the terminal: passed on, it would reach the script twice.
        script = """
import os, signal
from fitroom.supervisor.signals import Signals
with Signals().held() as signals:
    print("ready", flush=True)
    number, has_it = signals.wait(20)
    print(number.name, has_it)
    os.kill(os.getpid(), signal.SIGINT)
    number, has_it = signals.wait(20)
    print(number.name, has_it)
"""
        seen, _ = on_a_terminal(tmp_path, script, {"ready": b"\x03"})
        assert "SIGINT True\nSIGINT False\n" in seen
