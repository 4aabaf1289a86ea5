"""Benchmarks: ratios, measured side by side in one run, because the machine is shared and noisy."""
