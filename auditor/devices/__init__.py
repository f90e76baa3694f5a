"""GPUs a model may train on: the catalogue, the live card, and what they can do."""

from auditor.devices.catalogue_reader import DEFAULT_TARGET, Device, find_device, load_catalogue
from auditor.devices.live import live_device
from auditor.devices.target import choose_device

__all__ = ["DEFAULT_TARGET", "Device", "choose_device", "find_device", "live_device", "load_catalogue"]
