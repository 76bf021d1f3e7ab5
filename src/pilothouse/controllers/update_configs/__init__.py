"""UpdateConfigs: when to check a channel, and which Plan its offer makes.

``update_config_controller`` decides; ``running_versions`` finds the targets that run something older than the
offer; ``plan_template`` makes the Plan. The checks themselves are made by an observer (``updates``), which
answers in the status.
"""
