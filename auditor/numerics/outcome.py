"""How a mode's step came out against the FP32 step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from auditor.contract import ModeVerdict
from auditor.numerics.formats import FORMATS
from auditor.numerics.step import Outcome

# A healthy mixed-precision step stays within some ten unit roundoffs of FP32; four times that is a result
# its format's ordinary rounding does not explain.
TOLERANCE_ROUNDOFFS = 40.0
# Gradients of deep models carry the rounding of the whole chain twice; an angle of some 20 degrees to the
# true gradient (relative error 1/3) is where descent begins to suffer beyond minibatch noise.
GRADIENT_TOLERANCE = 1 / 3


@dataclass(frozen=True, slots=True)
class Result:
    """Errors are relative L2 errors to FP32 (inf when non-finite where FP32 is finite).

    output_error: the worst output tensor. gradient_error: all parameter gradients as one vector.
    excused: the verdict is ok only because rounding the weights alone takes the model as far.
    """

    verdict: ModeVerdict
    reason: str
    loss_error: float | None
    output_error: float | None
    gradient_error: float | None
    gradient_cosine: float | None
    nonfinite: int
    failed: bool
    output_allowed: float
    excused: bool


# Where more than half of the signal is lost, a model's own conditioning is no excuse: it does not compute
# what it computes in FP32, whatever the reason.
LARGEST_EXCUSE = 0.5
# Rounding activations and gradients at every layer may cost several times what rounding the weights does.
SENSITIVITY_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What an FP32 step loses when nothing but its weights is rounded to a format: the model's own
    conditioning, which no line of it is to blame for. Relative L2 errors."""

    output: float
    gradient: float


NO_SENSITIVITY = Sensitivity(0.0, 0.0)


def output_tolerance(precision: str, sensitivity: Sensitivity = NO_SENSITIVITY) -> float:
    """The relative output error that the format explains: 40 unit roundoffs, or more where the model
    magnifies the rounding of its weights (batch statistics of few values, chaotic depth)."""
    return max(
        TOLERANCE_ROUNDOFFS * FORMATS[precision].unit_roundoff,
        min(SENSITIVITY_FACTOR * sensitivity.output, LARGEST_EXCUSE),
    )


def gradient_tolerance(precision: str, sensitivity: Sensitivity = NO_SENSITIVITY) -> float:
    ordinary = max(TOLERANCE_ROUNDOFFS * FORMATS[precision].unit_roundoff, GRADIENT_TOLERANCE)
    return max(ordinary, SENSITIVITY_FACTOR * sensitivity.gradient)


def sensitivity_of(rounded: Outcome, reference: Outcome) -> Sensitivity:
    """From a step whose weights alone were rounded. A step that fails or is non-finite tells nothing."""
    errors = [
        _tensor_error(got, expected)[0]
        for got, expected in zip(rounded.outputs, reference.outputs, strict=False)
        if expected.is_floating_point() and expected.numel() and got.shape == expected.shape
    ]
    gradient, _, _ = _gradients(rounded, reference)
    known = [e if math.isfinite(e) else 0.0 for e in (max(errors, default=0.0), gradient or 0.0)]
    return Sensitivity(*known)


def _tensor_error(candidate: torch.Tensor, reference: torch.Tensor) -> tuple[float, int]:
    both_finite = torch.isfinite(reference)
    bad = int((~torch.isfinite(candidate) & both_finite).sum())
    if bad:
        return math.inf, bad
    scale = float(torch.linalg.vector_norm(torch.where(both_finite, reference, 0.0).double()))
    difference = torch.where(both_finite & torch.isfinite(candidate), candidate - reference, 0.0)
    error = float(torch.linalg.vector_norm(difference.double()))
    return (error / scale if scale else (0.0 if error == 0.0 else math.inf)), 0


def _gradients(candidate: Outcome, reference: Outcome) -> tuple[float | None, float | None, int]:
    """(relative error, cosine, non-finite count) of all parameter gradients as one vector."""
    difference = reference_square = candidate_square = product = 0.0
    nonfinite = 0
    for name, expected in reference.gradients.items():
        got = candidate.gradients.get(name)
        finite = torch.isfinite(expected)
        expected = torch.where(finite, expected, 0.0).double()
        got = torch.zeros_like(expected) if got is None else torch.where(finite, got, 0.0).double()
        bad = ~torch.isfinite(got)
        nonfinite += int(bad.sum())
        got = torch.where(bad, 0.0, got)
        difference += float(((got - expected) ** 2).sum())
        reference_square += float((expected**2).sum())
        candidate_square += float((got**2).sum())
        product += float((got * expected).sum())
    if not reference.gradients:
        return None, None, 0
    if nonfinite:
        return math.inf, None, nonfinite
    if reference_square == 0.0:
        return (0.0 if candidate_square == 0.0 else math.inf), None, 0
    cosine = product / math.sqrt(reference_square * candidate_square) if candidate_square else 0.0
    return math.sqrt(difference / reference_square), cosine, 0


# Decisions between near-equal values fall either way in any format; so many of them are chance, not a fault.
NEAR_TIES = 0.025


def _only_near_ties(candidate: Outcome, reference: Outcome, flips: float, allowed: float) -> bool:
    """Whether the outputs agree but for the few elements that flipped decisions may have touched."""
    if not 0.0 < flips <= NEAR_TIES:
        return False
    pairs = zip(candidate.outputs, reference.outputs, strict=False)
    floats = [(c, r) for c, r in pairs if r.is_floating_point() and r.numel() and c.shape == r.shape]
    return all(_without_worst(c, r, 4 * flips) <= allowed for c, r in floats)


def _without_worst(candidate: torch.Tensor, reference: torch.Tensor, share: float) -> float:
    """Relative L2 error over all elements but the given share of the worst."""
    difference = (candidate - reference).double().abs().flatten()
    kept = difference.sort().values[: difference.numel() - math.ceil(share * difference.numel())]
    scale = float(torch.linalg.vector_norm(reference.double()))
    return float(torch.linalg.vector_norm(kept)) / scale if scale else 0.0


def judge_outcome(
    candidate: Outcome,
    reference: Outcome,
    precision: str,
    refusals: int = 0,
    sensitivity: Sensitivity = NO_SENSITIVITY,
    flips: float = 0.0,
) -> Result:
    """Compare a mode's step with the FP32 step. `refusals` counts ops the real GPU would have refused,
    `flips` is the largest share of one decision (argmax, topk, a comparison) that fell differently."""
    errors: list[tuple[float, int]] = []
    flipped = 0.0
    for got, expected in zip(candidate.outputs, reference.outputs, strict=False):
        if got.shape != expected.shape:
            flipped = 1.0
        elif expected.is_floating_point() and expected.numel():
            errors.append(_tensor_error(got, expected))
        elif not expected.is_complex() and expected.numel():
            flipped = max(flipped, float((got != expected).float().mean()))
    output_error = max((e for e, _ in errors), default=None)
    gradient_error, cosine, bad_gradients = _gradients(candidate, reference)
    if candidate.failure is not None:
        gradient_error = cosine = None
    nonfinite = sum(n for _, n in errors) + bad_gradients
    loss_error = None
    if candidate.loss is not None and reference.loss is not None and math.isfinite(reference.loss):
        distance = abs(candidate.loss - reference.loss)
        loss_error = distance / abs(reference.loss) if reference.loss else distance
        loss_error = math.inf if math.isnan(loss_error) else loss_error
        nonfinite += not math.isfinite(candidate.loss)
    allowed = output_tolerance(precision, sensitivity)
    gradient_allowed = gradient_tolerance(precision, sensitivity)
    verdict: ModeVerdict = "broken"
    excused = False
    if candidate.failure is not None:
        reason = (
            f"the step fails: {candidate.failure.text.splitlines()[0] if candidate.failure.text else '?'}"
        )
    elif refusals:
        reason = f"{refusals} op{'s' * (refusals > 1)} the GPU refuses"
    elif nonfinite:
        reason = f"{nonfinite:,} values are NaN or infinite that are finite in FP32"
    elif output_error is not None and output_error > allowed:
        if _only_near_ties(candidate, reference, flips, allowed):
            verdict, reason = (
                "ok",
                f"outputs differ only where {flips:.1%} of near-tied decisions fell otherwise",
            )
        else:
            verdict = "degraded"
            reason = f"outputs differ from FP32 by {output_error:.2g} (relative); {allowed:.2g} is explained"
    elif gradient_error is not None and gradient_error > gradient_allowed:
        verdict = "degraded"
        explained = f"{gradient_allowed:.2g} is tolerable"
        reason = f"gradients differ from FP32 by {gradient_error:.2g} (relative); {explained}"
    elif flipped > 0.5:
        verdict, reason = "degraded", f"{flipped:.0%} of a decision output differs from FP32"
    elif (output_error or 0.0) > output_tolerance(precision) or (gradient_error or 0.0) > gradient_tolerance(
        precision
    ):
        verdict, reason = "ok", "no farther from FP32 than rounding the weights alone takes this model"
        excused = True
    else:
        verdict, reason = "ok", "as FP32 within the format's rounding"
    return Result(
        verdict=verdict,
        reason=reason,
        loss_error=loss_error,
        output_error=output_error,
        gradient_error=gradient_error,
        gradient_cosine=cosine,
        nonfinite=nonfinite,
        failed=candidate.failure is not None,
        output_allowed=allowed,
        excused=excused,
    )
