"""An audit that may be shown outside: the same numbers without paths, names and source lines."""

from __future__ import annotations

import re
from typing import Any

from auditor.contract import Audit


class _Names:
    """Stable stand-ins: the same text is always hidden behind the same one."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._types: dict[str, str] = {}
        self.secrets: dict[str, str] = {}

    def module(self, path: str) -> str:
        return self._stand_in(self._modules, path, "module")

    def file(self, path: str | None) -> str | None:
        return None if path is None else self._stand_in(self._files, path, "file")

    def type(self, name: str) -> str:
        return self._stand_in(self._types, name, "Type")

    def _stand_in(self, known: dict[str, str], text: str, kind: str) -> str:
        if not text:
            return text
        if text not in known:
            known[text] = f"{kind}-{len(known) + 1}"
            if len(text) > 3:
                self.secrets[text] = known[text]
        return known[text]


def without_names(audit: Audit) -> Audit:
    """Paths, module and class names become numbered stand-ins (layers of torch.nn keep their type); source
    excerpts, the command, the plan's snippet and the machine's name are left out."""
    names = _Names()
    data = audit.model_dump(mode="json")
    names.file(audit.subject.source)
    for layer in audit.layers:
        names.module(layer.module)
    _hide(data, names)
    subject, environment = data["subject"], data["environment"]
    subject.update(model_type="Model", source="a confidential model", entry="hidden", files=[], loss="hidden")
    environment.update(command=["ampaudit", "(hidden)"], platform="hidden", cpu="hidden")
    if data["plan"] is not None:
        data["plan"]["snippet"] = "# left out of a confidential report"
    if data["gate"] is not None:
        data["gate"]["name"] = "a confidential model"
    data["stale"] = []
    return Audit.model_validate_json(_json(_scrubbed(data, names)))


def _hide(node: Any, names: _Names) -> None:
    if isinstance(node, list):
        for item in node:
            _hide(item, names)
        return
    if not isinstance(node, dict):
        return
    torch_type = str(node.get("type", "")) in _TORCH_TYPES
    for key, value in node.items():
        if key == "module" and isinstance(value, str):
            node[key] = names.module(value)
        elif key == "file" and isinstance(value, str):
            node[key] = names.file(value)
        elif key == "type" and isinstance(value, str) and not torch_type:
            node[key] = names.type(value)
        elif key == "also_at":
            node[key] = [names.module(path) for path in value]
        elif key == "source" and isinstance(value, list):
            node[key] = []
        elif key == "ops" and isinstance(value, dict) and "texts" in value:
            _hide_ops(value, names)
        else:
            _hide(value, names)


def _hide_ops(table: dict[str, Any], names: _Names) -> None:
    texts = table["texts"]
    for column, hide in (("module", names.module), ("type", names.type), ("file", names.file)):
        for index in set(table[column]):
            if not (column == "type" and texts[index] in _TORCH_TYPES):
                texts[index] = hide(texts[index])


def _scrubbed(node: Any, names: _Names) -> Any:
    """Names inside sentences, the longest first, so that a path is not left over from its own prefix."""
    ordered = sorted(names.secrets, key=len, reverse=True)
    if not ordered:
        return node
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in ordered))

    def scrub(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda match: names.secrets[match[0]], value)
        if isinstance(value, list):
            return [scrub(item) for item in value]
        if isinstance(value, dict):
            return {scrub(key) if key not in _KEYS else key: scrub(item) for key, item in value.items()}
        return value

    return scrub(node)


def _json(data: Any) -> str:
    import json

    return json.dumps(data)


_KEYS = frozenset(Audit.model_fields)
_TORCH_TYPES = frozenset(
    [
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "LayerNorm",
        "RMSNorm",
        "GroupNorm",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "InstanceNorm1d",
        "InstanceNorm2d",
        "InstanceNorm3d",
        "Embedding",
        "EmbeddingBag",
        "Dropout",
        "ReLU",
        "GELU",
        "SiLU",
        "Sigmoid",
        "Tanh",
        "Softmax",
        "LogSoftmax",
        "MultiheadAttention",
        "MaxPool1d",
        "MaxPool2d",
        "AvgPool2d",
        "AdaptiveAvgPool2d",
        "Identity",
        "Flatten",
        "Sequential",
        "ModuleList",
        "LSTM",
        "GRU",
        "RNN",
        "CrossEntropyLoss",
        "MSELoss",
    ]
)
