"""Standard output and error that take every text, and a run that goes on where they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys
from nitro_learner.cli import streams
with streams.prepared():
    with streams.unfailing("stdout"):
        {body}
    open("after", "w").close()
"""


def _run(folder: Path, body: str, shell: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    (folder / "program.py").write_text(_PROGRAM.format(body=body))
    command = f"{sys.executable} program.py {shell}"
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env={**os.environ, **variables}, capture_output=True, check=False
    )


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", b"4>8 +- ## 18 ?? ?\n"),
        ("latin-1", b"4>8 \xb1 ## 18 \xe9? ?\n"),
        ("utf-8", "4→8 ± ━━ ▁█ é漢 ?\n".encode()),
    ],
)
def test_what_an_encoding_lacks_is_replaced_by_what_is_alike(
    tmp_path: Path, encoding: str, shown: bytes
) -> None:
    for stream in ("stdout", "stderr"):
        # The last one is a byte of a file's name that is no text.
        body = f"print('4→8 ± ━━ ▁█ é漢 \\udcff', file=sys.{stream})"
        result = _run(tmp_path, body, PYTHONIOENCODING=encoding)
        assert (getattr(result, stream), result.returncode) == (shown, 0)


@pytest.mark.parametrize(
    ("shell", "told"),
    [
        (
            "> /dev/full",
            b"The output cannot be written (No space left on device). This goes on without it.\n",
        ),
        ("2> /dev/full", b""),
        ("> /dev/full 2>&1", b""),
        (">&-", b""),
        (">&- 2>&- <&-", b""),
    ],
)
def test_streams_that_cannot_be_written_end_nothing(tmp_path: Path, shell: str, told: bytes) -> None:
    body = "[print('line', file=file, flush=True) for _ in range(3) for file in (sys.stdout, sys.stderr)]"
    result = _run(tmp_path, body, shell)
    assert result.returncode == 0
    assert (tmp_path / "after").read_bytes() == b"", "the number of a closed stream is no other file's"
    assert result.stderr.replace(b"line\n", b"") == told


def test_a_pipe_that_must_not_block_is_waited_for(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    (tmp_path / "program.py").write_text(_PROGRAM.format(body="print('x' * 1_000_000)"))
    with subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdout=writing) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert len(pipe.read()) == 1_000_001
    assert process.returncode == 0
