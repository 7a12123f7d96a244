"""The requirements manifest: what of Android is emulated, its sources, and what proves it."""
