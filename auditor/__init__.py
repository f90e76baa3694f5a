"""ampaudit: which layers may run in FP16, BF16, TF32 or FP32, with evidence."""

__version__ = "0.1.0"
