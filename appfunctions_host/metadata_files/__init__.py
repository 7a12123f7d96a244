"""The XML in which an app's package declares its functions, and stubs of such an app."""
