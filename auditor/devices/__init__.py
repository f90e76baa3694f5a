"""GPUs a model may train on: the catalogue, the live card, and what they can do."""

from auditor.devices.catalogue_reader import DEFAULT_TARGET, Device, choose_device, find_device, load_catalogue

__all__ = ["DEFAULT_TARGET", "Device", "choose_device", "find_device", "load_catalogue"]
