"""What looks like a secret by its name, or stands where one may stand, and is none: by form."""

from __future__ import annotations

import pytest

from penumbra import redact

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TEXTS = {
    "programs with a version or a port": """\
sendmail-passwd: 1.9.3
passwd 4.8.1-1ubuntu5.22.04
ii  login          1:4.13+dfsg1-1+b1   amd64   system login tools
passwd=1:4.13+dfsg1-1+b1
    "csrf-token": "4.2.0-rc.1", "login-token": "1:4.13~rc1-1"
login\t1:4.13+dfsg1-1+b1\tamd64
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
    "digests": f"""\
auth/token.py,sha256=ep-QMOYlh8e1s9vslMOMPWCadpXKbRBZHcaslHMWQUg,2787
"hashed_secret": "{HEX[:40]}",
{HEX[:40]}:src/secrets/token.py:generic-api-key:12""",
    "public keys of traces": """\
sentry-trace: d49d9bf66f13450b81f65bc51cf49c03-1cc4b26ab9094ef0-1
x-trace-token: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
baggage: sentry-trace_id=d49d9bf66f13450b81f65bc51cf49c03,sentry-public_key=49d0f7386ad645858ae85020e393bef3
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
    "rules of validation": r"""\
'password' => 'required|string|min:8|confirmed',
'password' => 'nullable|min:6',
'token' => 'required|string|size:64',
'api_key' => 'sometimes|alpha_num|between:20,40',
"password": "required|min_length[8]|max_length[72]"
set_rules('password', 'Password', 'required|min_length[8]|matches[passconf]');
password: "min=8,max=72"
password: 'isLength:8,64'
'password' => 'min:8'
"password": "min_len,6|max_len,100"
'password' : 'required | min:8',
'secret' => 'nullable|string|max:255|starts_with:sk_2'
password: z.string().min(8).max(100),
Password string `json:"password" validate:"required,min=8,max=72"`
syn match perlPassword "\<\%(get\%(pw\%(uid\|nam\)\)\)\>\"""",
    "lists of names": """\
API_TOKEN
S3_BUCKET_V4
PASSWORD
REDIS_DB0
test_login_password
test_oauth2_pkce_S256
    password
    Argon2idHasher
["password", "Argon2Hasher", "token", "HS256v2"]
assert_equal(kind="token", "tok2Name9")
conn.bind(password, 'application/vnd.api+json')
python -c 'import a9b; pass' 'Xy9zQw12'
daemon:*:1:1:daemon:/usr/sbin:/usr/sbin/nologin""",
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


LABELS = {
    "es": "Contraseña", "fr": "Motdepasse", "de": "Passwortbestätigung", "ru": "Пароль", "zh": "密码", "ja": "パスワード",
    "ko": "비밀번호", "pt": "Palavra-passe", "it": "Parola d'ordine", "nl": "Wachtwoord", "sv": "Lösenord",
    "no": "Passord", "da": "Adgangskode", "fi": "Salasana", "is": "Lykilorð", "pl": "Hasło", "cs": "Přístupovýklíč",
    "sk": "Heslo", "hu": "Jelszó", "ro": "Parolă", "bg": "Парола", "sr": "Лозинка", "hr": "Lozinka", "sl": "Geslo",
    "uk": "Пароль", "lt": "Slaptažodis", "lv": "Parole", "et": "Parool", "el": "Κωδικός", "tr": "Şifrenizigiriniz",
    "ar": "كلمة المرور", "he": "סיסמה", "fa": "رمز عبور", "hi": "पासवर्ड", "ta": "கடவுச்சொல்", "th": "รหัสผ่าน",
    "vi": "Mậtkhẩu", "id": "Kata sandi", "ka": "პაროლი", "hy": "Գաղտնաբառ", "km": "ពាក្យសម្ងាត់", "am": "የይለፍ ቃል",
    "sw": "Nenosiri", "ca": "Contrasenya", "eu": "Pasahitza", "gl": "Contrasinal", "cy": "Cyfrinair", "sq": "Fjalëkalimi",
    "decomposed": "Contrasen\u0303a",
}  # fmt: skip
WRITTEN = (
    '{{"login": {{"password": "{}"}}}}', "'password' => '{}',", "password={}", "password: {}",
    '<string name="password">{}</string>', '"password" = "{}";', '"newPassword": "{} *",', '"confirm_password": "{}:"',
)  # fmt: skip


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_the_label_of_a_field_stays(label: str) -> None:
    assert [form for form in WRITTEN if redact(form.format(label)) != form.format(label)] == []


SECRETS = {
    "a version is in it": "passwd=1:4.13Xq!zz",
    "words between bars": "'password' => 'correct|horse7|staple'",
    "a rule's word and a secret": "password: 'hunter2x|min:8'",
    "a rule takes a secret": "'token' => 'required|in:q8Zk2mVt41Lx9RwP'",
    "no rule but a password": "DB_PASSWORD=min:Zq81kLw",
    "words after a comma": 'password: "Kitchen,horse42"',
    "a label with figures": '"password": "Contraseña2024"',
    "a label with signs": '"password": "Contraseña!Xy9"',
    "a word with an accent": '"password": "Müllermilch"',
    "a name's own value": '{"password": "Lösegeld-Übergabe9"}',
    "beside a trace": "token: 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7x9",
    "behind a digest": "sha256 api_key=q8Zk2mVt41Lx9RwPz0bT6cA3sD5f",
    "below a name": "password\nTr0ub4dor&3\n",
    "below a constant": "PASSWORD\nSUMMER2024\n",
    "an argument's name": 'new SqlParameter(name: "password", "hunter2Xy")',
    "an argument": "cfg.set('password', 'hunter2Xy')",
    "a type and a subtype": "password = 'application/Xq91!zz'",
    "a hash of a password": '"hashed_password": "5f4dcc3b5aa765d61d8327deb882cf99"',
    "a private key of a service": "SENTRY_SECRET_KEY=49d0f7386ad645858ae85020e393bef3",
    "a line of pgpass": "*:*:*:app:swordfi5h",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_what_is_like_it_is_found(kind: str) -> None:
    assert "[REDACTED:" in redact(SECRETS[kind])
