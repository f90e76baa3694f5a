"""`ampaudit doctor`: what is installed, which GPU is seen, what will be used."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path

import click

from auditor import __version__

_PARTS = (
    ("torch", "audits", True),
    ("onnx", "ONNX models", True),
    ("pydantic", "artefacts and configuration", True),
    ("common-expression-language", "rules", True),
    ("jinja2", "the HTML report", True),
    ("safetensors", ".safetensors batches and checkpoints", True),
    ("transformers", "the examples", False),
    ("pyarrow", "--format parquet", False),
    ("lightning", "the Lightning callback", False),
    ("accelerate", "the Accelerate check", False),
)


@click.command("doctor")
def command() -> None:
    """Say what is installed, which GPU is seen, and what an audit would use. Ends with status 1 when
    something it needs is missing."""
    from auditor.gate.cache import cache_folder
    from auditor.gate.config import find_document

    missing = []
    click.echo(f"ampaudit {__version__}, Python {platform.python_version()} ({sys.executable})")
    click.echo(f"machine: {platform.platform()}, {os.cpu_count()} CPUs, {_memory()}")
    click.echo("\npackages")
    for name, use, needed in _PARTS:
        try:
            state, version = "✔", importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            state, version = ("✖", "missing") if needed else ("–", "not installed")
            if needed:
                missing.append(name)
        click.echo(f"  {state} {name} {version}: {use}")
    click.echo("\naudits")
    if "torch" not in missing:
        _device()
    document = find_document(Path.cwd())
    click.echo(f"  configuration: {document.file or 'none found from here upwards'}")
    kept = len(list(cache_folder().glob("*.json")))
    click.echo(f"  cache: {cache_folder()} ({kept} audits)")
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    click.echo(f"  a browser for the report: {browser or 'none on the PATH; any will open the file'}")
    if missing:
        click.echo(f"\nmissing: {', '.join(missing)}; pip install {' '.join(missing)}", err=True)
        raise click.exceptions.Exit(1)


def _memory() -> str:
    from auditor.subject.limits import physical_memory

    return f"{physical_memory() / 2**30:.1f} GiB RAM"


def _device() -> None:
    """The GPUs torch sees and the target an audit would choose."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    click.echo(f"  torch: {torch.__version__} ({build})")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            click.echo(f"  GPU {index}: {torch.cuda.get_device_name(index)}")
    else:
        click.echo("  GPU: none seen; 16-bit results are emulated on the CPU, times predicted")
    from auditor.devices import choose_device

    _, target = choose_device(None)
    click.echo(f"  target without --target: {target.name} ({target.chosen_because})")
