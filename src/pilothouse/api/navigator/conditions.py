"""Reasons and messages in conditions of Pilots that other components act on."""

from __future__ import annotations

from typing import Final

WRONG_IMAGE: Final = "the image has no Elasticsearch"
"""Begins the message of a Pilot whose hook failed because its image has no database."""
OUT_OF_TOUCH: Final = "OutOfTouch"
"""Reason of ``Ready=False``: the database runs and was ready in this run, but sees no master or does not
answer. It still holds its data; with any other reason nothing is lost by a restart."""
HOOK_FAILED: Final = "HookFailed"
"""Reason of ``Ready`` while a step before the database's start or stop fails and is retried."""
