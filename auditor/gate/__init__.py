"""The gate: a policy as data, judged on an audit. Nothing here imports torch."""
