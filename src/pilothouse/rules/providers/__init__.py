"""Where rules get their metrics: a Prometheus, or pages that are scraped and evaluated here.

    async with providers_from(Path("config.yaml"), embedded) as providers:
        found = providers.get("prometheus")
        answers = await found.provider.query(["up == 0"], now)

``provider_set`` has the providers that ``autopilot_config`` names; ``prometheus`` and ``embedded`` are their
types. ``scrape_targets`` says what is scraped, ``bounded_http`` makes the requests.

A provider bounds the time and memory that an answer takes; one that fails answers with a ``QueryFailure``,
and the others go on.
"""
