"""A CA that can sign for LLM hosts only, and the certificates under it."""

import datetime
import ipaddress
import os
import stat
from types import SimpleNamespace

import pytest
from cryptography import x509
from mitmproxy import ctx
from mitmproxy.certs import CertStore

from penumbra.cli import ca, certificates, start
from penumbra.cli.certificates import ca_file, own_folder
from penumbra.cli.command import Failure
from penumbra.flow.certificate_names import CertificateNames, is_permitted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("ca")
    ca.make(made, ["*.llm.example", "10.1.2.3"])
    return made


def test_the_ca_signs_for_llm_hosts_only(folder):
    made = ca.read(folder)
    assert made.lacks(ca.provider_hosts()) == []
    assert made.lacks(["a.llm.example", "10.1.2.3", "localhost", "127.0.0.1"]) == []
    others = ["example.com", "github.com", "com", "anthropic.com.evil.example", "10.1.2.4", "*"]
    assert made.lacks(others) == others
    assert made.until > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3000)
    assert stat.S_IMODE(ca_file(folder).stat().st_mode) == 0o600
    with pytest.raises(ca.TooWide):
        ca.make(folder, ["*.com"])


def test_certificates_have_permitted_names_only(folder, monkeypatch):
    """A client refuses a certificate with a name that the CA may not sign for."""
    store = CertStore.from_store(folder, "mitmproxy", 2048)
    addons = SimpleNamespace(get=lambda name: SimpleNamespace(certstore=store))
    monkeypatch.setattr(ctx, "master", SimpleNamespace(addons=addons), raising=False)
    CertificateNames().tls_clienthello(SimpleNamespace())
    names = ["*.example.com", "generativelanguage.googleapis.com", "127.0.0.1"]
    wished = [x509.DNSName(name) for name in names[:2]] + [x509.IPAddress(ipaddress.ip_address(names[2]))]
    entry = store.get_cert("*.example.com", wished, "An organisation")
    assert [name.value for name in entry.cert.altnames] == [names[1]]
    assert entry.cert.cn == names[1]
    assert [name.value for name in store.get_cert("x", wished[:1]).cert.altnames] == ["*.example.com"]


def test_networks_are_within_networks():
    allowed = [x509.IPAddress(ipaddress.ip_network("10.0.0.0/8"))]
    assert is_permitted(x509.IPAddress(ipaddress.ip_address("10.9.9.9")), allowed)
    assert not is_permitted(x509.IPAddress(ipaddress.ip_address("::1")), allowed)
    assert not is_permitted(x509.DNSName("10.9.9.9"), allowed)


def test_the_ca_that_is_there_is_the_one_in_use(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    theirs, ours = tmp_path / ".mitmproxy", own_folder()
    assert certificates.folder_in_use() == ours == tmp_path / ".local/state/penumbra/ca"
    theirs.mkdir()
    ca_file(theirs).touch()
    assert certificates.folder_in_use() == theirs
    with pytest.raises(Failure, match="the CA in use is mitmproxy's own"):
        ca.main(["remove"])
    assert ca.main(["make", "--host", "llm.example"]) == 0
    assert certificates.folder_in_use() == ours
    assert certificates.folder_in_use(str(theirs)) == theirs
    assert "llm.example" in capsys.readouterr().out
    with pytest.raises(Failure, match="make --again"):
        ca.main(["make"])
    assert ca.main(["make", "--again", "--any-host"]) == 0
    assert "signs for    any host\n" in capsys.readouterr().out
    assert ca.main(["trust"]) == 0
    assert "update-ca-certificates" in capsys.readouterr().out
    assert ca.main(["remove"]) == 0
    assert not ours.exists()
    for wrong in (["mak"], ["make", "--host"], ["make", "--host", "*.com"], ["show", "x"]):
        with pytest.raises(Failure) as failed:
            ca.main(wrong)
        assert failed.value.code == 2


def test_a_glob_of_hosts_of_all_owners_is_refused_by_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    allowed = "allowed: a host, or a glob that ends in a domain (*.example.com)"
    with pytest.raises(Failure) as failed:
        start.prepare_ca(hosts=("llm.example", "*"))
    remedy = "`penumbra ca make --any-host` allows any host"
    assert (str(failed.value), failed.value.code) == (f"penumbra_hosts: got '*', {allowed}; {remedy}", 2)
    assert not own_folder().exists()


def test_only_the_user_can_write_the_certificates_with_any_umask(tmp_path):
    before = os.umask(0)
    try:
        ca.make(tmp_path)
        bundle = certificates.with_bundle(ca.certificate_file(tmp_path)).bundle
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert bundle is not None
    assert modes.pop("mitmproxy-ca.pem") == 0o600
    assert set(modes.values()) == {0o644}


def test_mitmproxy_has_nothing_to_write_beside_it(tmp_path):
    """A proxy may not be able to write to the folder."""
    ca.make(tmp_path)
    made = sorted(tmp_path.iterdir())
    CertStore.from_store(tmp_path, "mitmproxy", 2048)
    assert sorted(tmp_path.iterdir()) == made
