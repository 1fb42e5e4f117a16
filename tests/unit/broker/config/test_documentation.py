"""Every configuration key is documented in full sentences, with its unit."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigDefinition
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.cluster.group_configs import GROUP_CONFIGS
from tidelog.remote.metadata.config import CONFIGS as METADATA_MANAGER_CONFIGS
from tidelog.remote.objects.config import CONFIGS as STORAGE_MANAGER_CONFIGS
from tidelog.remote.objects.stores.fsspec_store import CONFIGS as FSSPEC_CONFIGS
from tidelog.remote.objects.stores.local_directory import CONFIGS as LOCAL_DIRECTORY_CONFIGS
from tidelog.remote.objects.stores.s3_settings import CONFIGS as S3_CONFIGS
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

DEFINITIONS = [
    definition
    for table in (
        BROKER_CONFIGS,
        TOPIC_CONFIGS,
        GROUP_CONFIGS,
        METADATA_MANAGER_CONFIGS,
        STORAGE_MANAGER_CONFIGS,
        LOCAL_DIRECTORY_CONFIGS,
        FSSPEC_CONFIGS,
        S3_CONFIGS,
    )
    for definition in table.values()
]
UNITS = {
    "ms": "milliseconds",
    "secs": "seconds",
    "seconds": "seconds",
    "minutes": "minutes",
    "hours": "hours",
    "bytes": "bytes",
}
OF_ANOTHER_KEY = ("The default of the topic config ", "The former name of ")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.key)
def test_the_documentation_is_complete(definition: ConfigDefinition) -> None:
    text = definition.documentation
    assert text[:1].isupper() and text.endswith("."), text
    assert "  " not in text and "\n" not in text
    unit = UNITS.get(definition.key.rpartition(".")[2])
    if unit is not None and not text.startswith(OF_ANOTHER_KEY):
        assert unit in text, f"{definition.key} does not name its unit: {text}"
