"""Evaluates a subset of PromQL at one moment, over series in memory, with the results of Prometheus 2.

    query = compile_query("100 * used_bytes / capacity_bytes")
    evaluate(query, series, now)                # a Vector

Windows of samples are flat arrays with the start of each series, so that a function of all series is a few
operations of numpy. There is no I/O here.
"""
