"""The AICore daemon's gRPC services: thin, over objects that know no gRPC."""
