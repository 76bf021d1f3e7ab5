"""The scheduler: which nodes can run a pod (``filters``), which of them is best (``scores``), and why none
can."""
