"""What the trusted comment of a payload's signature says about it.

trusted_comment("v1.2.3", "linux-amd64", "k0s", 1700000000)
parse_trusted_comment("version:v1.2.3\tplatform:linux-amd64")    # {"version": "v1.2.3", "platform": …}

Fields are ``name:value``, with tabs between them, as in minisign's own comments, or blanks. ``version`` and
``platform`` are what a machine compares with the plan that it follows.
"""

from __future__ import annotations


def trusted_comment(version: str, platform: str, file: str, time: int) -> str:
    return f"version:{version}\tplatform:{platform}\ttimestamp:{time}\tfile:{file}"


def parse_trusted_comment(text: str) -> dict[str, str]:
    """The fields by name; what has no name is left out, and if a name occurs twice, the first counts."""
    fields: dict[str, str] = {}
    for part in text.split("\t" if "\t" in text else None):
        name, colon, value = part.partition(":")
        if colon and name.strip() not in fields:
            fields[name.strip()] = value.strip()
    return fields
