"""Statistics and machine facts of benchmarks."""
