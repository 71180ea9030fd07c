"""What looks like a secret by its name, or stands where one may stand, and is none: by form."""

from __future__ import annotations

import pytest

from penumbra import redact

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TEXTS = {
    "programs with a version or a port": """\
sendmail-passwd: 1.9.3
passwd 4.8.1-1ubuntu5.22.04
libpam-passwdqc:amd64 1.4.0-1build2
login 1:4.16.0-2+really2.40-2
/usr/bin/passwd:22
sshd-login:2222
kpasswd 464/tcp
klogin: 543
smbpasswd-4.17.12-1.el9
LoginService.login:8080
apache2-htpasswd: 2.4.57""",
    "verbs and options": """\
pass X to the function
pass a token to f(x1)
you can pass foo123bar as the first argument
pass -U https://example.com/api to the client
use -U https://proxy.example.net:8080/path in the command
wget -U Mozilla/5.0 https://example.com:8080/file
psql -U postgres -h localhost:5432
docker run -u 1000:1000 alpine""",
    "checksums and cache keys": f"""\
secret_checksum: {HEX}
checksum/secret: {HEX}
secret-hash: sha256:{HEX}
secrets-sha256 = "{HEX}"
SECRET_CACHE_KEY=linux-x64-node-20-{HEX[:24]}
cache-key: v1-deps-{HEX}
api_key_hash: {HEX}
"secretFingerprint": "{HEX[:32]}\"""",
    "public keys of traces": """\
trace_key: 4bf92f3577b34da6a3ce929d0e0e4736
public_trace_key=4bf92f3577b34da6a3ce929d0e0e4736
traceKey: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"""",
    "sealed values": """\
password: ENC[AES256_GCM,data:CwE4O1s=,iv:2k3j4h5g6f7d8s9a,tag:aA==,type:str]
password: ENC(2k3j4h5g6f7d8s9aQWERTYuiop)
db_password: !vault |
          $ANSIBLE_VAULT;1.1;AES256
          66386439653236336462626566653063336164663966303231363934653561363964363833313662
secret: vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==
password: {cipher}682bc583f4641835fa2db009355293665d2647dade3375c0ee201de2a49f7bda""",
    "other scripts": """\
password: 请输入密码
password: "Введите пароль"
"password": "パスワードを入力してください\"""",
    "names of things": """\
if token == "identifier_12":
$password | ConvertTo-SecureString -AsPlainText -Force
X-ApiKeys: accessKey=$ACCESS; secretKey=$SECRET
connect(password, retries=3, token, n=1)
the password has to be changed to something with 12 characters
LoadCredential=firstboot.locale
| Azure OpenAI | `AZURE_OPENAI_API_KEY` | `azure-openai-responses` |
self.ftp_password = smb_password
| `--db-password` | `SUDO_PASS` | none |
secrets: [shop-db-v2, shop-tls-2031]
existingSecret: shop-tls-2031
credentials:
Host: db-prod-001.internal.example.com""",
    "nothing": """\
password: not-set
SECRET_KEY: (not set)
token: unset
password: <unset>""",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_it_stays(kind: str) -> None:
    assert [line for line in TEXTS[kind].split("\n") if redact(line) != line] == []
    assert redact(TEXTS[kind]) == TEXTS[kind]
