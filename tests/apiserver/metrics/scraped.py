"""A scraped page, read by the parser of Prometheus' own client library.

page = Scraped.read(body)
page.value("apiserver_request_total", verb="GET", code="200")
page.labels("pilothouse_object_info", name="db")
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scraped:
    types: dict[str, str]
    samples: list[tuple[str, dict[str, str], float]]

    @classmethod
    def read(cls, body: bytes) -> Scraped:
        """Parse, and check what a parser lets pass: families stand together, and no sample comes twice."""
        text = body.decode()
        declared = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
        assert len(declared) == len(set(declared)), Counter(declared).most_common(3)
        families = list(text_string_to_metric_families(text))
        samples = [(each.name, each.labels, each.value) for family in families for each in family.samples]
        seen = Counter((name, tuple(sorted(labels.items()))) for name, labels, _ in samples)
        assert seen.most_common(1)[0][1] == 1, seen.most_common(3)
        return cls({family.name: family.type for family in families}, samples)

    def values(self, name: str, /, **labels: str) -> list[float]:
        return [value for _, value in self._found(name, labels)]

    def value(self, name: str, /, **labels: str) -> float:
        (found,) = self.values(name, **labels)
        return found

    def labels(self, name: str, /, **labels: str) -> dict[str, str]:
        ((found, _),) = self._found(name, labels)
        return found

    def names(self) -> set[str]:
        return {name for name, _, _ in self.samples}

    def _found(self, name: str, labels: dict[str, str]) -> list[tuple[dict[str, str], float]]:
        return [
            (found, value)
            for each, found, value in self.samples
            if each == name and labels.items() <= found.items()
        ]
