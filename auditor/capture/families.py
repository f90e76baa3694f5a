"""What an ATen op is: its family and the lists of rules/ops.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any


class Patterns:
    """A set of op names ("aten.mm") given by fnmatch patterns on the part after "aten."."""

    def __init__(self, patterns: tuple[str, ...], without: Patterns | tuple[()] = ()) -> None:
        self._patterns = patterns
        self._without = without
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            base = name.removeprefix("aten.")
            known = any(fnmatchcase(base, p) for p in self._patterns) and name not in self._without
            self._known[name] = known
        return known


@dataclass(frozen=True)
class OpFamilies:
    """`family_of(name)` and the lists an emulation needs; names are packets such as "aten.mm"."""

    families: tuple[tuple[str, Patterns], ...]
    free: Patterns
    casts: Patterns
    fills: Patterns
    products: Patterns
    sequential: Patterns
    same_dtype: Patterns
    no_fp16_kernel: Patterns
    no_bf16_kernel: Patterns
    _family_of: dict[str, str] = field(default_factory=dict)

    def family_of(self, name: str) -> str:
        known = self._family_of.get(name)
        if known is None:
            known = next((family for family, patterns in self.families if name in patterns), "other")
            self._family_of[name] = known
        return known

    def refused_in_half(self, dtype: Any) -> Patterns:
        """Ops CUDA refuses in `dtype` (torch.float16 or torch.bfloat16)."""
        return self.no_fp16_kernel if str(dtype) == "torch.float16" else self.no_bf16_kernel


@cache
def load_families() -> OpFamilies:
    data = tomllib.loads((files("auditor.rules") / "ops.toml").read_text(encoding="utf-8"))
    lists = {name: tuple(patterns) for name, patterns in data["lists"].items()}
    with_kernel = Patterns(lists["has_half_kernel"])
    return OpFamilies(
        families=tuple((name, Patterns(tuple(patterns))) for name, patterns in data["family"].items()),
        free=Patterns(lists["free"]),
        casts=Patterns(lists["casts"]),
        fills=Patterns(lists["fills"]),
        products=Patterns(lists["products"]),
        sequential=Patterns(lists["sequential"]),
        same_dtype=Patterns(lists["same_dtype"]),
        no_fp16_kernel=Patterns(lists["no_fp16_kernel"], with_kernel),
        no_bf16_kernel=Patterns(lists["no_bf16_kernel"], with_kernel),
    )
