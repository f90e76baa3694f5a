"""What the recorder writes down, on models small enough to count by hand."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from auditor.capture.families import load_families
from auditor.capture.recorder import Recorder
from auditor.capture.trace import Op

FAMILIES = load_families()


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16, eps=1e-6), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.first(x))
        return self.second(self.norm(h) * 0.5)


def record(model: nn.Module, *inputs: torch.Tensor, graph: bool = False) -> Recorder:
    recorder = Recorder(model, {str(i): t for i, t in enumerate(inputs)}, FAMILIES, graph=graph)
    with recorder.modules.follow(), recorder:
        model(*inputs).sum().backward()
    return recorder


def ops(recorder: Recorder, name: str, phase: str = "forward") -> list[Op]:
    return [op for op in recorder.ops if op.name == name and op.phase == phase]


def test_modules_lines_and_constants() -> None:
    recorder = record(Small(), torch.randn(2, 8))
    first, second = ops(recorder, "aten.addmm")
    assert (first.module, first.module_type, second.module) == ("first", "Linear", "second")
    assert first.file == __file__ and first.line is not None and second.line == first.line + 1
    (norm,) = ops(recorder, "aten.native_layer_norm")
    assert norm.constants["eps"] == 1e-6 and norm.family == "norm" and norm.module == "norm"
    (half,) = ops(recorder, "aten.mul")
    assert half.constants["other"] == 0.5 and half.module == ""


def test_flops_and_bytes() -> None:
    recorder = record(Small(), torch.randn(2, 8))
    first, second = ops(recorder, "aten.addmm")
    assert (first.flops, second.flops) == (2 * 2 * 8 * 16, 2 * 2 * 16 * 4)
    (relu,) = ops(recorder, "aten.relu")
    assert (relu.bytes_read, relu.bytes_written) == (2 * 16 * 4, 2 * 16 * 4)
    backward = sum(op.flops for op in recorder.ops if op.phase == "backward")
    # The input needs no gradient, so the first layer has one product in backward and the second has two.
    assert backward == first.flops + 2 * second.flops


def test_flops_of_the_cpus_attention_are_counted() -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, q, q)

    recorder = record(Attention(), torch.randn(2, 3, 8, 16, requires_grad=True))
    forward = sum(op.flops for op in recorder.ops if op.phase == "forward")
    # Two products of 8 x 16 by 16 x 8 and 8 x 8 by 8 x 16, for each of 2 x 3 heads.
    assert forward == 2 * 3 * 2 * (2 * 8 * 8 * 16)
    # Backward computes the scores anew and two gradients of each product (flash attention).
    assert sum(op.flops for op in recorder.ops if op.phase == "backward") == forward * 5 // 2


def test_producers_and_origins() -> None:
    recorder = record(Small(), torch.randn(2, 8))
    first, second = ops(recorder, "aten.addmm")
    assert first.origins[:2] == ("param:first.bias", "input:0") and first.origins[2] == "param:first.weight"
    (relu,) = ops(recorder, "aten.relu")
    (mul,) = ops(recorder, "aten.mul")
    assert relu.producers == (first.id,) and second.producers[1] == mul.id


def test_backward_ops_belong_to_their_forward_op() -> None:
    recorder = record(Small(), torch.randn(2, 8))
    (norm,) = ops(recorder, "aten.native_layer_norm")
    (gradient,) = ops(recorder, "aten.native_layer_norm_backward", "backward")
    assert gradient.forward_id == norm.id
    assert (gradient.module, gradient.line) == (norm.module, norm.line)
    computing = [op for op in recorder.ops if op.phase == "backward" and op.family != "view"]
    assert all(op.forward_id is not None for op in computing)


def test_the_graph_holds_every_op_and_is_sound() -> None:
    recorder = record(Small(), torch.randn(2, 8), graph=True)
    trace = recorder.trace()
    trace.graph.lint()
    recorded = [node.meta["op"] for node in trace.graph.nodes if "op" in node.meta]
    assert recorded == list(trace.ops)
    assert {n.meta.get("origin") for n in trace.graph.nodes if n.op == "placeholder"} >= {
        "param:first.weight",
        "input:0",
    }


def test_checkpointed_ops_are_seen_again_as_forward() -> None:
    class Checkpointed(Small):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)

    recorder = record(Checkpointed(), torch.randn(2, 8))
    assert [op.module for op in ops(recorder, "aten.addmm")][:2] == ["first", "second"]
    assert all(op.phase == "backward" for op in recorder.ops if op.name.endswith("_backward"))


def test_no_tensor_is_kept_alive() -> None:
    import gc
    import weakref

    model = Small()
    x = torch.randn(2, 8)
    recorder = Recorder(model, {"0": x}, FAMILIES, graph=True)
    with recorder.modules.follow(), recorder:
        h = model.first(x).detach()
    alive = weakref.ref(h)
    del h
    gc.collect()
    assert alive() is None and len(recorder.ops) > 0


def test_shared_modules_and_inner_calls_restore_the_stack() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.sin(self.layer(x)))

    recorder = record(Twice(), torch.randn(2, 4))
    assert [op.module for op in ops(recorder, "aten.addmm")] == ["layer", "layer"]
    assert [op.module for op in ops(recorder, "aten.sin")] == [""]
