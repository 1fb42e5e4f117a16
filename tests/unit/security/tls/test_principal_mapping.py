"""ssl.principal.mapping.rules; the examples are those of KIP-371 and of Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.security.tls.principal_mapping import NoMatchingRule, PrincipalMapper

KIP_371 = ",".join(
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    "name, principal",
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_applies(name: str, principal: str) -> None:
    assert PrincipalMapper(KIP_371).principal_name(name) == principal


@pytest.mark.parametrize(
    "rules, name, principal",
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", None),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Duke\, Jr,OU=x", r"Duke\, Jr"),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$3/", "CN=a,OU=b", "a@$3"),
        ("RULE:^CN=(.*)$/$10/", "CN=a", "a0"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "CN=a"),
        (r"RULE:^CN=(.*)$/\$1\/x/", "CN=a", "$1/x"),
        ("RULE:^CN=(.*?),.*$/$1/ , RULE:^CN=(.*)$/x-$1/U", "CN=a", "X-A"),
        ("RULE:^CN=b$/x/", "CN=a", None),
        ("RULE:a/b/", "a,a", None),
    ],
)
def test_rules_replace_names_as_in_kafka(rules: str, name: str, principal: str | None) -> None:
    mapper = PrincipalMapper(rules)
    if principal is not None:
        assert mapper.principal_name(name) == principal
        return
    with pytest.raises(NoMatchingRule, match=r"no rule of ssl.principal.mapping.rules matches"):
        mapper.principal_name(name)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/",
        "RULE:(?=CN)(.*)/$1/",
        "RULE:^CN=(.*)$/$x/",
    ],
)
def test_invalid_rules_are_rejected(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl.principal.mapping.rules="):
        PrincipalMapper(rules)


def test_the_time_to_match_is_linear_in_the_length_of_the_name() -> None:
    mapper = PrincipalMapper("RULE:^(([a-z])+.)+[A-Z]([a-z])+$/$1/,DEFAULT")
    name = "a" * 50_000
    assert mapper.principal_name(name) == name
