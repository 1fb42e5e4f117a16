"""The settings of the Arrow decoder that follow from the options of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.spark_connector.planning.client_options import ClientOptions

if TYPE_CHECKING:
    from tidelog.spark_connector.arrow.decoder import DecoderSettings


def decoder_settings(client: ClientOptions, *, include_headers: bool) -> DecoderSettings:
    """Return the settings of the decoder; limits and checks are options of the client."""
    # This import is slow, and planning does not need it.
    from tidelog.spark_connector.arrow.decoder import DecoderSettings

    defaults = DecoderSettings()
    return DecoderSettings(
        include_headers=include_headers,
        check_crcs=client.values.get("check_crcs", defaults.check_crcs),
        max_decompressed_bytes=client.values.get("max_decompressed_bytes", defaults.max_decompressed_bytes),
    )
