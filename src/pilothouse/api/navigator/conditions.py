"""Words in the conditions of Pilots by which others decide."""

from __future__ import annotations

from typing import Final

WRONG_IMAGE: Final = "the image has no Elasticsearch"
"""How the message of a Pilot begins whose hook failed for want of a database in its image."""
OUT_OF_TOUCH: Final = "OutOfTouch"
"""The reason of a ``Ready`` that is ``False``: the database runs and was ready in this run, so that it holds what it held; it sees no master, or does not
answer. Any other reason means that nothing is lost by restarting it."""
HOOK_FAILED: Final = "HookFailed"
"""Of ``Ready``, while something that has to be done before the database starts or stops goes wrong; it is tried again."""
