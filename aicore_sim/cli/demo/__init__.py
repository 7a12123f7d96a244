"""The order example: a shop app with its provider, its agent, and three other apps."""
