"""What AICore decides before and around a generation: no gRPC, no model."""
