"""JAAS configs: Kafka's syntax, one module, no class is loaded, no value in an error."""

from __future__ import annotations

import pytest

from tidelog.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, JaasError, jaas_text, parse_jaas

SECRET = "canary-1f9c"


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas(f"{PLAIN_LOGIN_MODULE} required {text};", "PLAIN").options)


def test_the_users_of_a_server_are_read_from_its_options() -> None:
    text = (
        f'{PLAIN_LOGIN_MODULE} required\n  username="broker" password="b"\n'
        '  user_broker="b"\n  user_alice="a=;b"\n  user_carol-x=secret;'
    )
    module = parse_jaas(text, "PLAIN")
    assert module.options["username"] == "broker"
    assert module.users == {"broker": "b", "alice": "a=;b", "carol-x": "secret"}


@pytest.mark.parametrize("user", ["alice@example.com", "a b", 'x="1" user_admin', "a;b", "\u00e9\\\n"])
def test_a_written_config_has_every_user_name_unchanged(user: str) -> None:
    assert parse_jaas(jaas_text("PLAIN", {f"user_{user}": SECRET}), "PLAIN").users == {user: SECRET}


def test_comments_quotes_and_escapes_are_those_of_java() -> None:
    assert options('// one\n a=\'x\' /* two\n */ b="a\\"b\\\\c\\n\\101"') == {"a": "x", "b": 'a"b\\c\nA'}


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_every_control_flag_is_allowed(flag: str) -> None:
    assert parse_jaas(f"{SCRAM_LOGIN_MODULE} {flag};", "SCRAM-SHA-512").name == SCRAM_LOGIN_MODULE


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN_LOGIN_MODULE,
        f"{PLAIN_LOGIN_MODULE};",
        f"{PLAIN_LOGIN_MODULE} {SECRET};",
        f"{PLAIN_LOGIN_MODULE} required",
        f'{PLAIN_LOGIN_MODULE} required password="{SECRET}"',
        f'{PLAIN_LOGIN_MODULE} required password "{SECRET}";',
        f"{PLAIN_LOGIN_MODULE} required password=;",
        f"{PLAIN_LOGIN_MODULE} required password={SECRET}",
        f'{PLAIN_LOGIN_MODULE} required password="{SECRET};',
        f'{PLAIN_LOGIN_MODULE} required password="{SECRET}"; {PLAIN_LOGIN_MODULE} required;',
        f"{PLAIN_LOGIN_MODULE} required password={SECRET}(;",
        f"{SCRAM_LOGIN_MODULE} required password={SECRET};",
        f"{SECRET} required;",
        "x" * 2_000_000,
    ],
)
def test_an_invalid_config_is_rejected_without_its_values(text: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse_jaas(text, "PLAIN")
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "os.system",
    ],
)
def test_cve_2023_25194_and_2025_27818_a_login_module_is_never_loaded(module: str) -> None:
    with pytest.raises(JaasError, match="requires"):
        parse_jaas(f"{module} required;", "PLAIN")


def test_a_module_does_not_show_its_options() -> None:
    module = parse_jaas(f'{PLAIN_LOGIN_MODULE} required password="{SECRET}";', "PLAIN")
    assert SECRET not in repr(module)
