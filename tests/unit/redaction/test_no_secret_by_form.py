"""Values with the name, the form or the place of a secret that are none."""

from __future__ import annotations

import re

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
    "lines of code, settings, logs and prose": r"""\
SHA256 (src/password.txt) = 9bcfbe07fae17389034ec2c2920d33fd9bcfbe07fae17389034ec2c2920d33fd
MD5(secrets.env)= 59002f3cef558c1bcd0f159e5e845212
SecretHash: ea4ebc4252e38c8180b7bf753dcec437c6b375c5:app/config.py:aws-access-token:12
syn keyword luaFunc passwd auth sha256 print2 uint8_t exp2
x-datadog-trace-id: k3bi1JDVpy1pXZQsjC86sVOcAweMYUrwc9aGnUvLYIgE=
X-Newrelic-Transaction: 9ceqz77oS05LIerv1pqP8l4qb3Y7AvQrdE8OlwVpc4Bc=
newrelic: eyJ2IjpbMCwxXSwiZCI6eyJ0eSI6IkFwcCIsImFjIjoiMTM0OTk1NCIsImFwIjoiMTgzMzc2ODE5In19
sentry-trace_id=4bf92fa577b34da6,sentry-public_key=dd735a35b7564ad3a0f0408f0484f2fb
'pass', 'double2', 'float64', 'key', 'sha256'
LOCAL_MODEL_PROXY_API_KEY=local-proxy
DB_USERNAME=postgres DB_PASSWORD=postgres
Testing API Key: AIzaS...xSFh8
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
app = make_app(proxy_token="s3cr3t-token")
headers.Set("Authorization", "Basic dXNlcjpwYXNz")
FieldDescriptor("SMTP_PASSWORD", "SMTP_PASSWORD")
http://foo:bar:baz@example.com
redis://:mypass@localhost:6379/0
token: "sk-ant-oat456"
Signature made using RSA key 4AEE18F83AFDEB23
Recovery codes: see the settings of your account, section 2
Copy the key into the file: config/production2.yaml
the token was authentication_failed_for_user_2
jwt.sign(payload, 'secret')
createHmac('sha256', key)
echo "$PASSWORD" | su - postgres
mypy --password-file x | passwd
"a (b) or [c]" == token
const tokenLimit = config.get("limits.token", { default: "4096tokens" }) ?? "none-at-all";
parser.add_argument("--token-file", default="/run/secrets/token2")
<input type="text" name="page_token_size" value="20entries" id="tokens">
<option value="accessible2">key</option>
password?.length ?? "no-password-was-given";
let db_password = option_env!("DB_PASSWORD");
pub fn token(&self) -> &str { "next" }
public string TokenType { get; set; } = "Bearer";
secret_path: "projects/shop-2/secrets/db/versions/3"
token_hash = "K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols="
public_key_fingerprint: SHA256:K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol
secretName: wildcard-example-net-tls-2031
tokenizer_class = "PreTrainedTokenizerFast2048ForCausalLM"
http://foo:bar@example.com/path
https://user:mypass@www.example.org:8080/
Name           Value
Key Value
the key's value
SecureString parameters are encrypted
token: "old" -> "new"
| Name | Default | Value |
| token_ttl | 3600s | 7200s |
hasura_metadata_migration_1612345678901_create_users_table.sql
import { convex_functions_test_suite_20240101_all_results } from "./convex_functions_test_suite";
spacelift_stack_dependency_reference_2024_11_05_outputs: true
testkube_executor_postman_collection_runner_1_16_0.yaml
-- turso_database_replica_sync_interval_20240229_backfill.sql
env0_deployment_environment_variables_2024_terraform_plan.json
def test_koyeb_service_deployment_status_returns_200_when_healthy():
mint_documentation_generator_pipeline_step_2024_09_18
resource "fastly_service_acl_entries_20240101_production_main" "this" {}
hcloud_load_balancer_target_server_network_10_0_0_2: attached
const vultr_instance_snapshot_retention_policy_days_30_weekly = 4;
FASTLY_PATH=9f86d081884c7d659a2feaa0c55ad015
datadog_patch: 4bf92f3577b34da6a3ce929d0e0e4736
twilio path = "0123456789abcdef0123456789abcdef"
heroku_pattern_id: 01234567-89ab-cdef-0123-456789abcdef
sentry.author=7c4a8d09ca3762af61e59520943dc26494f8941b
const token_sha = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad";
RECAPTCHA_SITE_KEY=6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI
<div class="g-recaptcha" data-sitekey="6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI"></div>
BUNDLE_PATH: "vendor/bundle"
BUNDLE_WITHOUT: "development:test2"
BUNDLE_BUILD__NOKOGIRI: "--use-system-libraries"
credentials: same-origin
if ("oauth2_code" === params.token && 'step_2' !== state.secret) {
if (node.type == 'Identifier2' && 'StringLiteral' == next.token) return;
case token.LBRACE: p.expect(token.IDENT3)
$ docker login 123456789012.dkr.ecr.eu-central-1.amazonaws.com
$ npm run auth test-suite-integration-2024-11
$ git checkout -b login feature/JIRA-1234-login-form-2024
src/lib/token
    at Object.authenticate (/srv/app/node_modules/passport-local2/lib/strategy.js:75:13)
E   AssertionError: expected token 'NAME3' but found 'OP12'
2024-11-05T08:12:33Z INFO auth: user=1842 session=expired status=401 path=/api/v2/token
10.0.0.7 - - [05/Nov/2024:08:12:33 +0000] "POST /oauth2/token HTTP/1.1" 200 1842
index 3b18e512d..7c4a8d09c 100644
+    assert_password_reset_email_sent_2024(user, password_reset_token_generator)
- Key rotation takes about 90days; the pass phrase is asked for when the agent starts.
public async Task<AccessToken> GetAccessTokenAsync(string clientId, SecretClient secretClient2)
fn parse_token<'a>(input: &'a str, key: &Key128) -> IResult<&'a str, Token2<'a>> {
func (s *TokenStore) RefreshToken(ctx context.Context, key string) (*Token, error) {
private final Map<String, PasswordEncoder> passwordEncoders2 = new HashMap<>();
let secretRef = try await keychain.secret(for: .apiToken2)
SELECT token_id, key_name FROM api_keys2 WHERE secret_version > 12 AND pass_count = 3;
.token-string2 { color: var(--secret-key-color-2); }
      secretKeyRef: {name: shop-db-credentials-v2, key: password2}
    image: registry.example.net/auth-token-service:2024.11.05-3b18e512
password_hash_algorithm = "pbkdf2_sha256"
"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
var key_vault_secret_name = "shop-db-connection-2"
Das Passwort ist mindestens 12 Zeichen lang.""",
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


MARKED = r"""
interface password: ⟦hunter2Xq9!⟧
the namespace key: ⟦Zk3vQ9xLm2TbN8rW4yHs6Dp1⟧
class Password = "⟦Hunter2!xyz⟧"
PASSWORD=⟦pass-wordHunter2xyz⟧
password=⟦s-a-d-r-o⟧
username="xkqzvbnmhill" password="⟦xkqzvbnm⟧"
redis://:⟦my-app-secret⟧@prod-redis.acme.internal:6379/0
postgres://app:⟦app_db_pass⟧@db.prod.acme.com:5432/app
mysql://root:⟦testpass⟧@server.acme.com/shop
amqp://client:⟦mysecret⟧@mq.test.acme.com
""".strip("\n").split("\n")
"""Texts that look like the lines above and hold a secret all the same."""


def test_what_is_like_a_harmless_line_does_not_hide_a_secret() -> None:
    for line in MARKED:
        before, _, rest = line.partition("⟦")
        secret, _, behind = rest.partition("⟧")
        redacted = redact(before + secret + behind)
        form = re.escape(before) + r"\[REDACTED:[^\[\]]+\]" + re.escape(behind)
        assert re.fullmatch(form, redacted), line
