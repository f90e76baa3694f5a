"""The layers as a tree of modules, blocks that repeat folded into one."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from auditor.contract import Audit, Layer
from auditor.report import words
from auditor.report.answers import SERIOUS

_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38}
_MOST = 400  # nodes; a tree beyond is cut at a depth that fits
_OPEN = 2  # levels shown unfolded
# Findings by module, the modules with serious ones, and the time of all layers in us.
_Known: TypeAlias = tuple[Counter[str], set[str], float]


@dataclass(frozen=True)
class Node:
    """`layer` is the module path to link to, None for a mere container; `alike` counts folded siblings."""

    name: str
    layer: str | None
    type: str
    alike: int
    precisions: tuple[tuple[str, int], ...]
    unsafe: tuple[str, ...]
    findings: int
    serious: bool
    error: str
    margin: str
    time_share: str
    open: bool
    children: tuple[Node, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        """What makes blocks alike: everything a reader would decide by, not the last digit of an error."""
        inner = tuple((c.name, c.alike, c.shape) for c in self.children)
        return self.type, self.precisions, self.unsafe, self.findings, inner


@dataclass
class _Branch:
    layer: Layer | None = None
    children: dict[str, _Branch] = field(default_factory=dict)

    def layers(self) -> list[Layer]:
        own = [self.layer] if self.layer is not None else []
        return own + [layer for child in self.children.values() for layer in child.layers()]


def module_tree(audit: Audit) -> tuple[Node, ...]:
    """The top of the tree; empty without layers."""
    root = _Branch()
    for layer in audit.layers:
        branch = root
        for part in layer.module.split(".") if layer.module else []:
            branch = branch.children.setdefault(part, _Branch())
        branch.layer = layer
    found = Counter(m for f in audit.findings for m in {f.module, *f.also_at})
    serious = {m for f in audit.findings if f.severity in SERIOUS for m in (f.module, *f.also_at)}
    total = sum(_time(layer) or 0.0 for layer in audit.layers)
    nodes = _nodes(root, "", 0, (found, serious, total))
    for depth in range(12, 0, -1):
        if _size(nodes) <= _MOST:
            break
        nodes = tuple(_cut(node, depth) for node in nodes)
    return nodes[:_MOST]


def _nodes(branch: _Branch, path: str, level: int, known: _Known) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for name, child in branch.children.items():
        node = _node(name, child, f"{path}.{name}" if path else name, level, known)
        before = nodes[-1] if nodes else None
        if before is not None and name.isdigit() and _numbered(before.name) and before.shape == node.shape:
            first = before.name.split(" … ")[0]
            nodes[-1] = replace(before, name=f"{first} … {name}", alike=before.alike + 1)
        else:
            nodes.append(node)
    return tuple(nodes)


def _numbered(name: str) -> bool:
    return re.fullmatch(r"\d+( … \d+)?", name) is not None


def _node(name: str, branch: _Branch, path: str, level: int, known: _Known) -> Node:
    found, serious, total = known
    layers = branch.layers()
    precisions = Counter(layer.precision for layer in layers)
    unsafe = {
        words.PRECISION[p]: None
        for p in ("fp16", "bf16", "tf32")
        for layer in layers
        if (c := layer.candidates.get(p)) is not None and c.safe is False
    }
    errors = [c.error for x in layers if (c := x.candidates.get(x.precision)) is not None and c.error]
    margins = [m for x in layers if (m := _margin(x)) is not None]
    time = sum(_time(x) or 0.0 for x in layers)
    return Node(
        name=name,
        layer=branch.layer.module if branch.layer is not None else None,
        type=branch.layer.type if branch.layer is not None else "",
        alike=1,
        precisions=tuple((p, precisions[p]) for p in words.PRECISION if p in precisions),  # type: ignore[index]
        unsafe=tuple(unsafe),
        findings=sum(found[x.module] for x in layers),
        serious=any(x.module in serious for x in layers),
        error=words.percent(max(errors)) if errors else "",
        margin=f"{min(margins):.1f} binades" if margins else "",
        time_share=words.percent(time / total) if total and time / total >= 0.001 else "",
        open=level < _OPEN,
        children=_nodes(branch, path, level + 1, known),
    )


def _margin(layer: Layer) -> float | None:
    """Binades between the largest value and the end of the 16-bit format the layer runs in."""
    candidate = layer.candidates.get(layer.precision)
    if layer.precision not in _LARGEST or candidate is None or not candidate.absmax:
        return None
    return math.log2(_LARGEST[layer.precision] / candidate.absmax) if math.isfinite(candidate.absmax) else 0.0


def _time(layer: Layer) -> float | None:
    candidate = layer.candidates.get(layer.precision)
    return candidate.time_us if candidate is not None else None


def _size(nodes: tuple[Node, ...]) -> int:
    return sum(1 + _size(node.children) for node in nodes)


def _cut(node: Node, depth: int) -> Node:
    return replace(node, children=tuple(_cut(c, depth - 1) for c in node.children) if depth > 1 else ())
