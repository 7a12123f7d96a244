"""`bench`: what the daemon's policy costs, measured on this machine."""
