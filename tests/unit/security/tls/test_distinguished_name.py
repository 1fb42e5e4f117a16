"""The text of distinguished names; the expected texts are those of X500Principal.getName() of Java 17."""

from __future__ import annotations

import pytest

from tidelog.security.certificate_authority import Authority
from tidelog.security.tls.distinguished_name import distinguished_name

NAMES = {
    "special characters": (
        "303c310b3009060355040613024445311d301b060355040a0c144269672c2022436f22203c613e3d"
        "622b633b235c310e300c06035504030c05616c696365",
        'CN=alice,O=Big\\, \\"Co\\" \\<a\\>\\=b\\+c\\;\\#\\\\,C=DE',
    ),
    "blanks at both ends": (
        "301c311a301806035504030c11206c65616420616e6420747261696c2020",
        "CN=\\ lead and trail\\ \\ ",
    ),
    "number sign": (
        "3010310e300c06035504030c052368617368",
        "CN=\\#hash",
    ),
    "mail address": (
        "302e311c301a06092a864886f70d010901160d61406578616d706c652e636f6d310e300c06035504030c05616c696365",
        "CN=alice,1.2.840.113549.1.9.1=#160d61406578616d706c652e636f6d",
    ),
    "domain components and characters beyond ASCII": (
        "306131133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c64011916"
        "076578616d706c6531123010060a0992268993f22c6401010c027531311d301b06035504030c144a"
        "c3b67267204dc3bc6c6c657220e6bca2e5ad97",
        "CN=Jörg Müller 漢字,UID=u1,DC=example,DC=com",
    ),
    "relative name with several attributes": (
        "30273125300806035504030c01613008060355040b0c0162300f060a0992268993f22c6401010c0163",
        "CN=a+OU=b+UID=c",
    ),
    "attributes without a keyword of RFC 2253": (
        "3070310f300d06035504080c0642617965726e3111300f06035504070c084dc3bc6e6368656e310c"
        "300a06035504090c03782031310b3009060355040513023737310b3009060355040c0c024472310a"
        "3008060355042a0c0167310a300806035504040c0173310a300806035504030c016e",
        "CN=n,2.5.4.4=#0c0173,2.5.4.42=#0c0167,2.5.4.12=#0c024472,2.5.4.5=#13023737,"
        "STREET=x 1,L=München,ST=Bayern",
    ),
    "BMPString": (
        "3011310f300d06035504031e060062006d0070",
        "CN=\\00b\\00m\\00p",
    ),
    "T61String": (
        "300e310c300a06035504031403743631",
        "CN=t61",
    ),
    "UniversalString": (
        "301b3119301706035504031c10000000750000006e0000006900000076",
        "CN=#1c10000000750000006e0000006900000076",
    ),
    "unknown attribute": (
        "300f310d300b06042a0304050c036f776e",
        "1.2.3.4.5=#0c036f776e",
    ),
    "control characters": (
        "3011310f300d06035504030c066109627f0063",
        "CN=a\tb\x7f\\00c",
    ),
    "other printable characters": (
        "301d311b301906035504030c12612f623a63272864293f2a26252440215f7e",
        "CN=a/b:c'(d)?*&%$@!_~",
    ),
}
"""By case: the encoded name, and its text in Java."""


@pytest.mark.parametrize("encoded, text", NAMES.values(), ids=NAMES)
def test_the_text_of_a_name_is_that_of_java(encoded: str, text: str) -> None:
    assert distinguished_name(bytes.fromhex(encoded)) == text


def test_the_subject_of_a_certificate_is_read() -> None:
    certificate = Authority.create().issue("alice").certificate
    assert distinguished_name(certificate.subject.public_bytes()) == "CN=alice"


@pytest.mark.parametrize("encoded", ["30", "3005", "301031", ""])
def test_an_invalid_encoding_is_rejected(encoded: str) -> None:
    with pytest.raises(ValueError):
        distinguished_name(bytes.fromhex(encoded))
