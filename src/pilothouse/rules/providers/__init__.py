"""Where rules get their metrics: a Prometheus, or pages that are scraped and evaluated here.

    async with providers_from(Path("config.yaml"), embedded) as providers:
        found = providers.get("prometheus")
        answers = await found.provider.query(["up == 0"], now)

The only part of ``rules`` that does I/O. A provider bounds the time and memory that an answer takes; one that
fails answers with a ``QueryFailure``, and the others go on.
"""
