"""`ampaudit devices`: the catalogue."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table


@click.command("devices")
def command() -> None:
    """List the GPUs of the catalogue with their dense peaks."""
    from auditor.devices import load_catalogue

    table = Table(
        "name",
        "architecture",
        "memory",
        "bandwidth",
        "fp32",
        "tf32",
        "fp16",
        "bf16",
        box=None,
        pad_edge=False,
    )
    for device in load_catalogue().values():
        peaks = [device.peak(fmt) for fmt in ("fp32", "tf32", "fp16", "bf16")]
        table.add_row(
            device.name,
            device.architecture,
            f"{device.memory_bytes / 1e9:.0f} GB",
            f"{device.bandwidth / 1e9:.0f} GB/s",
            *(f"{p / 1e12:.1f}" if p else "-" for p in peaks),
        )
    console = Console()
    console.print(table)
    console.print("Peaks in TFLOP/s, dense; FP16 products accumulate in FP32.")
