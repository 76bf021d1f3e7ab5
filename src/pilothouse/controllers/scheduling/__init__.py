"""Which node a pod runs on: what stands in the way of each (filters), which of the others is best (scoring), and why none is."""
