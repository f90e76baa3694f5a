"""The facts a rule's condition may name: one op as executed in one mode."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fact(NamedTuple):
    """`default` stands where an op has no such fact; its Python type is the fact's type. `unit`: "share"
    is a fraction 0..1, shown in per cent; other units are in the meaning."""

    default: Any
    meaning: str
    unit: str = ""


VOCABULARY: dict[str, Fact] = {
    # what and where
    "op": Fact("", "ATen packet, such as aten.addmm"),
    "family": Fact("", "family of rules/ops.toml"),
    "phase": Fact("forward", "forward, backward or optimizer"),
    "module_type": Fact("", "class of the module that ran the op"),
    "precision": Fact("fp16", "fp16, bf16 or tf32"),
    "mode": Fact("autocast", "autocast or pure"),
    "low": Fact(False, "the op took or gave tensors of the run's format, or was a TF32 product"),
    "low_output": Fact(False, "the op's result is held in the run's format"),
    "line_known": Fact(True, "whether the op has a line of the user's code"),
    # the run's outcome and this op's part in it
    "verdict": Fact("ok", "outcome of the mode: ok, degraded or broken"),
    "culprit": Fact(False, "blame points at this op's line, and the op shows the fault"),
    "confirmed": Fact(False, "the run was repeated with only this line in FP32, and came out well"),
    "mode_error": Fact(0.0, "relative error of the mode's outputs"),
    "gradient_error": Fact(0.0, "relative error of the mode's gradients"),
    "fp32_nonfinite": Fact(0, "non-finite values this op makes of finite ones already in FP32"),
    # values
    "numel": Fact(0, "elements of the output"),
    "absmax": Fact(0.0, "largest magnitude of the output in FP32"),
    "input_absmax": Fact(0.0, "largest magnitude of the inputs in FP32"),
    "headroom": Fact(99.0, "binades between absmax and the format's largest value; negative: beyond it"),
    "nonfinite": Fact(0, "elements non-finite here and finite in FP32"),
    "nans": Fact(0, "of the non-finite elements, those that are NaN"),
    "overflowed": Fact(0, "elements this op's own rounding made infinite"),
    "origin": Fact(False, "non-finite values arise here: the inputs were finite"),
    "flushed": Fact(0, "elements this op's own rounding made zero"),
    "lost": Fact(0, "elements zero here and nonzero in FP32"),
    "lost_share": Fact(0.0, "share of the elements zero here and nonzero in FP32", "share"),
    # errors
    "error": Fact(0.0, "relative L2 error of the output against FP32"),
    "inherited": Fact(0.0, "largest relative error among the inputs"),
    "local": Fact(0.0, "relative error this op's own rounding adds"),
    "amplification": Fact(0.0, "error over the inherited error or the unit roundoff"),
    "roundoffs": Fact(0.0, "error in unit roundoffs of the format"),
    "unit_roundoff": Fact(0.0, "largest relative error of one rounding to the format"),
    "format_max": Fact(0.0, "largest finite value of the format"),
    "format_smallest": Fact(0.0, "smallest positive value of the format"),
    "exact_integers": Fact(0, "integers up to this are exact in the format"),
    # the closer look
    "cancellation": Fact(0.0, "binades lost by subtracting near-equal values, median"),
    "absorbed": Fact(0.0, "share of elements a nonzero addend left unchanged", "share"),
    "denominator": Fact(1e300, "smallest magnitude divided by, rooted or logged"),
    "vanished_denominators": Fact(
        0, "values divided by, rooted or logged that are zero here and nonzero in FP32"
    ),
    "masked_rows": Fact(0, "softmax rows that are -inf throughout here and not in FP32"),
    "flips": Fact(0, "integer or boolean results that differ from FP32"),
    "flip_share": Fact(0.0, "share of the integer or boolean results that differ", "share"),
    "integers": Fact(False, "the values are integers by origin: ids, positions, counts"),
    "flushed_at_scale": Fact(
        0.0, "share of these FP16 gradients that are zero at the recommended loss scale"
    ),
    "overflow_at_scale": Fact(0.0, "share of them beyond FP16 at the recommended loss scale", "share"),
    # constants
    "has_constant": Fact(False, "the op uses a nonzero constant"),
    "constant_name": Fact("", "name of the constant the format treats worst: eps, other, value, min..."),
    "constant_value": Fact(0.0, "value of that constant"),
    "constant_vanishes": Fact(False, "the constant rounds to zero in the format"),
    "constant_overflows": Fact(False, "the constant is beyond the format"),
    # refusals
    "refused_by": Fact("", "autocast, no-half-kernel, dtype-mismatch, constant, or error"),
    "refusal": Fact("", "the error text"),
    # the optimizer's step on 16-bit parameters
    "optimizer": Fact("", "class of the optimizer"),
    "learning_rate": Fact(0.0, "its learning rate"),
    "assumed": Fact(False, "the file builds no optimizer: kind and learning rate are assumptions"),
    "updates_lost": Fact(0.0, "share of the values FP32 moves that stay unchanged", "share"),
    "moments_flushed": Fact(0.0, "share of FP32's nonzero second moments that are zero here", "share"),
    # a fault in a training script's source
    "fault": Fact("", "kind of fault the source shows; its rule has the same name"),
    "proven": Fact(False, "the source shows it beyond doubt"),
    "named": Fact("", "what the fault is about, as the source calls it"),
    "beside": Fact("", "the other object or line of the fault"),
    # tensor cores
    "product": Fact(False, "a matrix product or convolution"),
    "misaligned": Fact("", "dimensions that keep tensor cores from their rate"),
    "tensor_cores": Fact(False, "the target has tensor cores for this format"),
}


def defaults() -> dict[str, Any]:
    """Every fact at its default: where the facts of an op start from."""
    return {name: fact.default for name, fact in VOCABULARY.items()}
