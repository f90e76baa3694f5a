"""Progress on stderr, for a person watching."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_PATIENCE = 1.0  # seconds before anything is drawn


@contextmanager
def progress_bar(*, enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yields progress(stage, done, total). Draws nothing off a terminal or within a second."""
    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        yield lambda _stage, _done, _total: None
        return
    bar = Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=True,
    )
    task = bar.add_task("starting", total=None)
    started = time.monotonic()

    def progress(stage: str, done: int, total: int) -> None:
        bar.update(task, description=stage, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield progress
    finally:
        bar.stop()
