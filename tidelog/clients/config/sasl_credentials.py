"""The SASL mechanism and credentials of a client: `sasl.mechanism` and `sasl.jaas.config`.

The options `username` and `password` of the login module are the credentials. With `tokenauth="true"` in a
config of SCRAM, they are the id and the HMAC of a delegation token (KIP-48).
Source: SaslConfigs, PlainLoginModule and ScramLoginModule of Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.security.jaas import JaasError, LoginModule, parse_jaas
from tidelog.security.scram.credentials import SCRAM_MECHANISMS
from tidelog.security.scram.messages import TOKEN_EXTENSION


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """A mechanism, a user and the password, which is hidden in the representation.

    `is_token`: the user is the id of a delegation token.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)
    is_token: bool = False


def parse_credentials(mechanism: str, jaas_config: str) -> SaslCredentials:
    """Return the credentials in a JAAS config of a client. Raise JaasError, which contains no value."""
    return credentials_of(mechanism, parse_jaas(jaas_config, mechanism))


def credentials_of(mechanism: str, module: LoginModule) -> SaslCredentials:
    """Return the credentials in the options of a login module. Raise JaasError if one is missing."""
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise JaasError("the JAAS config has no username or no password")
    is_token = mechanism in SCRAM_MECHANISMS and module.options.get(TOKEN_EXTENSION, "").lower() == "true"
    return SaslCredentials(mechanism, user, password, is_token)
