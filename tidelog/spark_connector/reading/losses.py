"""What happens to data loss: it fails the query or the task, or a warning is logged (`failOnDataLoss`)."""

from __future__ import annotations

import logging

from tidelog.spark_connector.planning.data_loss import DataLossError

_log = logging.getLogger("tidelog.spark")


def report_loss(loss: str, *, fail_on_data_loss: bool) -> None:
    """Raise DataLossError with the text `loss`, or log that these records are skipped."""
    if fail_on_data_loss:
        raise DataLossError(loss)
    _log.warning("%s: skipped", loss)
