"""Evaluates a subset of PromQL at one moment, over series in memory, with the results of Prometheus 2.

    query = compile_query("100 * used_bytes / capacity_bytes")
    evaluate(query, series, now)                # a Vector

``queries`` checks an expression against the subset; ``query_evaluation`` evaluates it by
``series_selectors``, ``binary_operators``, ``aggregations``, ``range_functions`` and ``histograms``.
``vectors`` and ``label_sets`` are what these work on, ``memory_series`` the series of a file, and
``query_errors`` says why there is no result.

Windows of samples are flat arrays with the start of each series, so that a function of all series is a few
operations of numpy. There is no I/O here.
"""
