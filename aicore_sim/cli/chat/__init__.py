"""`chat`: talk to the model of a device, as one of its apps."""
