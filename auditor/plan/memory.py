"""Memory of a training step, itemised per mode."""

from __future__ import annotations

from auditor.contract import MemoryItem

# State elements per parameter element: Adam's two moments (Kingma and Ba, 2015), SGD's momentum. Adafactor
# keeps a row and a column of its second moment instead of the matrix (Shazeer and Stern, 2018): 0.2 % of the
# elements of a 1024 x 1024 weight, taken as none.
STATE_ELEMENTS = {"adamw": 2, "adam": 2, "sgd": 0, "sgd-momentum": 1, "adafactor": 0}

NOTE = (
    "With FP32 master weights mixed precision does not shrink parameters plus optimizer state: autocast "
    "keeps parameters, gradients and state in FP32 and adds 16-bit copies of the weights. What shrinks is "
    "the activations saved for backward. Casting the whole model halves everything, but without FP32 masters "
    "an update smaller than half a step of its 16-bit weight rounds away, and training stalls."
)


def itemise(
    *,
    parameters: int,
    trainable: int,
    saved_activations: int,
    weight_copies: int,
    pure: bool,
    optimizer: str,
) -> MemoryItem:
    """Bytes of one step of one mode; `pure` says that the whole model is cast to a 16-bit format.

    `parameters` and `trainable` are element counts, `saved_activations` and `weight_copies` measured bytes of
    the mode (the 16-bit weight copies autocast makes are counted apart from the activations).
    """
    width = 2 if pure else 4
    items = {
        "parameters": parameters * width,
        "master_weights": 0,  # under autocast the FP32 parameters are the masters; pure modes have none
        "gradients": trainable * width,
        "optimizer_state": trainable * width * STATE_ELEMENTS[optimizer],
        "saved_activations": saved_activations,
        "autocast_weight_copies": weight_copies,
    }
    return MemoryItem(**items, total=sum(items.values()))
