"""`ampaudit devices`: the catalogue."""

from __future__ import annotations

import click


def _entry(name: str) -> str:
    """A device as a [[device]] table, ready for --device-file."""
    import json

    from auditor.devices import find_device

    def text(value: object) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{k} = {text(v)}" for k, v in value.items()) + " }"
        return json.dumps(value)

    described = find_device(name).model_dump(mode="json", exclude_none=True, exclude={"exceptions"})
    return "[[device]]\n" + "\n".join(f"{key} = {text(value)}" for key, value in described.items())


@click.command("devices")
@click.option("--show", metavar="NAME", help="Print one card's entry, to start a --device-file from.")
def command(show: str | None) -> None:
    """List the GPUs of the catalogue with their dense peaks."""
    from rich.console import Console
    from rich.table import Table

    from auditor.devices import load_catalogue

    if show is not None:
        click.echo(_entry(show))
        return

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
