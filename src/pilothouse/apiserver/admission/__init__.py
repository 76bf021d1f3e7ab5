"""Admission: what a write has to pass besides the rules of its kind. Plugins know kinds; ``admission_chain``
has their order and knows none."""
