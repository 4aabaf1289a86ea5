"""A step and a batch size → a Footprint: what it will need, before it runs."""
