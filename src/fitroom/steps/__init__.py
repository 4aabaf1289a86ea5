"""One step that can be sliced, rolled back and applied once.

batch ─► Step (whole, or slice by slice into accumulators) ─► Update (transactional) ─► result
         state.py remembers what a failed attempt touched     losses.py and probe.py know what slices count for
"""
