"""The scheduler: which nodes can run a pod (``filters``), and which of them is best (``scores``)."""
