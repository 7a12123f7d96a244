"""`eval`: a suite put to a model through a device of its own."""
