"""`appfunctions-host bench`."""
