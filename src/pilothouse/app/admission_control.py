"""Reads the file of ``--admission-control-config-file``."""

from __future__ import annotations

from pathlib import Path

from pilothouse.apiserver.admission.pod_security.configuration import (
    DEFAULT_CONFIGURATION,
    PodSecurityConfiguration,
)
from pilothouse.apiserver.admission.pod_security.configuration_file import (
    AdmissionFileError,
    read_admission_configuration,
)
from pilothouse.app.options import StartError, read_text


def pod_security(file: Path | None) -> PodSecurityConfiguration:
    """The configuration in a file; without one, Kubernetes' defaults. Raises ``StartError``."""
    if file is None:
        return DEFAULT_CONFIGURATION
    try:
        return read_admission_configuration(read_text(file), file, read_text)
    except AdmissionFileError as problem:
        raise StartError(f"the admission configuration can't be used:\n{problem}") from None
