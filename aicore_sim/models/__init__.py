"""The models of the device: what can be pulled, where it lies, how it is converted."""
