"""CUDA's autocast policy decides dtypes on the CPU as the header of the installed torch says."""

import subprocess
import sys
import textwrap

from auditor.numerics.autocast import read_policy

# Registering a policy lasts as long as the process, so each look at it has one of its own.
PROBE = textwrap.dedent(
    """
    import json, torch, torch.nn.functional as F
    from auditor.numerics.autocast import cuda_autocast
    x, refused = torch.rand(4, 4, requires_grad=True), []
    half = torch.rand(4, 4).half()
    seen = {}
    with cuda_autocast(torch.float16, lambda op, why: refused.append(op)):
        seen["linear"] = F.linear(x, x).dtype
        seen["matmul of floats"] = (x.float() @ x.float()).dtype
        seen["softmax of half"] = torch.softmax(half, -1).dtype
        seen["exp of half"] = half.exp().dtype
        seen["pow of half"] = half.pow(2).dtype
        seen["sum of half"] = half.sum().dtype
        seen["norm of half"] = half.norm().dtype
        seen["layer_norm of half"] = F.layer_norm(half, (4,)).dtype
        seen["mul of half"] = (half * half).dtype
        seen["mean of half"] = half.mean().dtype
        seen["var of half"] = half.var().dtype
        seen["gelu of half"] = F.gelu(half).dtype
        seen["cross_entropy of half"] = F.cross_entropy(half, torch.arange(4)).dtype
        where = torch.zeros(4, 4, dtype=torch.long)
        seen["scatter_add mixed"] = torch.zeros(4, 4).scatter_add(0, where, half).dtype
        F.binary_cross_entropy(x.sigmoid(), x.detach())
        with torch.autocast("cuda", enabled=False):
            seen["inside cuda autocast off"] = F.linear(x, x).dtype
            seen["enabled there"] = torch.is_autocast_enabled()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            seen["inside cuda autocast bf16"] = F.linear(x, x).dtype
    seen["outside"] = F.linear(x, x).dtype
    print(json.dumps([{k: str(v) for k, v in seen.items()}, refused]))
    """
)


def test_ops_run_where_cuda_runs_them() -> None:
    import json

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE], capture_output=True, text=True, check=True
    )
    seen, refused = json.loads(done.stdout)
    half, single = "torch.float16", "torch.float32"
    assert seen == {
        "linear": half,
        "matmul of floats": half,  # autocast undoes an explicit .float()
        "softmax of half": single,
        "exp of half": single,
        "pow of half": single,
        "sum of half": single,
        "norm of half": single,
        "layer_norm of half": single,
        "mul of half": half,
        "mean of half": half,
        "var of half": half,
        "gelu of half": half,
        "cross_entropy of half": single,
        "scatter_add mixed": single,
        "inside cuda autocast off": single,
        "enabled there": "False",
        "inside cuda autocast bf16": "torch.bfloat16",
        "outside": single,
    }
    assert refused == ["aten.binary_cross_entropy"]


def test_the_lists_are_the_installed_torchs() -> None:
    policy = read_policy()
    assert "linear" in policy["lower"] and "scaled_dot_product_attention" in policy["lower"]
    assert {"exp", "pow.Tensor_Scalar", "layer_norm"} <= set(policy["fp32"])
    assert {"softmax.int", "sum.dim_IntList"} <= set(policy["fp32_output"])
    assert "norm.Scalar" in policy["fp32_norm"] and "index_put" in policy["promote"]
