"""Source code and other texts whose values have the name, form or place of a secret but are none."""

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
"""Texts that look like the lines above but contain a secret."""


def test_what_is_like_a_harmless_line_does_not_hide_a_secret() -> None:
    for line in MARKED:
        before, _, rest = line.partition("⟦")
        secret, _, behind = rest.partition("⟧")
        redacted = redact(before + secret + behind)
        form = re.escape(before) + r"\[REDACTED:[^\[\]]+\]" + re.escape(behind)
        assert re.fullmatch(form, redacted), line


LINES = r"""
  userPrivateKey: Uint8Array,
  password: Uint8Array,
  oldPassword: UInt8ArrayBuffer,
  private readonly apiKey: string;
  password: string | undefined;
  secretKey?: CryptoKey;
  token: Promise<AccessToken>;
  const signing_key = load(path)
signing_key = load_pem_private_key(data, password=None)
self.password = kwargs.get("password")
password = os.environ["DB_PASSWORD"]
password = getpass.getpass("Password: ")
    def authenticate(self, user: str, password: str, token: Optional[str] = None) -> Session:
func NewClient(apiKey string, secret []byte) *Client {
	Password string `json:"password,omitempty"`
	SigningKey  crypto.PrivateKey
	secretKey := []byte(os.Getenv("SECRET_KEY"))
	token, err := jwt.ParseWithClaims(tokenString, &Claims{}, keyFunc)
pub struct Config { pub api_key: SecretString, pub password: Option<String> }
    let private_key: PrivateKeyDer<'static> = load_key(&path)?;
    let token = headers.get("Authorization").and_then(|v| v.to_str().ok());
private final String clientSecret;
public void setPassword(char[] password) { this.password = password; }
String token = request.getHeader("X-Auth-Token");
@Value("${spring.datasource.password}") private String password;
val accessToken: String? = prefs.getString(KEY_ACCESS_TOKEN, null)
data class Credentials(val username: String, val password: CharArray)
let apiKey: SecureString = Keychain.shared.read(service: "com.example")
var refreshToken: RefreshTokenProvider?
private string _connectionString = Configuration.GetConnectionString("Default");
public SecureString Password { get; set; }
protected $password = self::DEFAULT_PASSWORD;
$this->apiKey = $config['services']['stripe']['key'];
attr_accessor :password, :password_confirmation
  has_secure_password validations: false
  def token = @token ||= generate_token(length: 32)
char *password = read_password(stdin);
std::string secret_key = absl::StrCat(prefix, "-", suffix);
static const unsigned char private_key[KEY_SIZE];
EVP_PKEY *private_key = PEM_read_PrivateKey(fp, NULL, NULL, NULL);
type Password = Brand<string, "Password">;
export type SecretKeyResolver = (header: JWSHeaderParameters) => Promise<KeyLike>;
"verdict":"pass","key_findings":["a"],"summary":"ok"
{"verdict":"pass","next_step":"deploy","owner":"alice"}
{"login":"octocat","id":1,"node_id":"MDQ6VXNlcjE="}
commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (key fix)
The key 9fceb02d0ae598e95dc970b74767f19372d61af8 was added in this commit
cache key: node-modules-linux-x64-9fceb02d0ae598e95dc970b74767f19372d61af8
Pwd: /srv/app/tests/unit/test_login.py
Pwd: /home/user/project/packages/core
PWD=/home/user/project
key: setup-node-Linux-x64-npm-2c8f9d1e
password: not-set
password: пароль
password: 密码不能为空
パスワード: 入力してください
passwd 1.2.3-4
kpasswd5 464/tcp
openssh-login 2.0:22
xlogin:5900
The tests pass src/handlers/auth.py and then fail
psql -U postgres -h localhost
curl -U https://proxy.example.com:8080 https://example.com
secret_checksum: sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
SECRETS_CACHE_KEY=v1-9fceb02d0ae598e95dc970b74767f19372d61af8
x-trace-key: 4bf92f3577b34da6a3ce929d0e0e4736
password: ENC[AES256_GCM,data:p673w==,iv:YY=,aad:UQ=,tag:A=]
password: ENC[PKCS7,MIIBiQYJKoZIhvcNAQcDoIIBejCCAXYCAQAxggEhMIIBHQIBADAFMAACAQEwDQYJ]
  encryptedData:
  token: !vault |
          $ANSIBLE_VAULT;1.1;AES256
          66386439653236336462626566653063336164663966303231363934653561363964363833313662
    tokenizer: GPT2TokenizerFast
    password_hash_rounds: 12
passwordValidator: PasswordValidatorImpl
  keyPair: await crypto.subtle.generateKey(alg, true, ["sign"])
  secret: process.env.JWT_SECRET!,
  token: ${{ secrets.GITHUB_TOKEN }},
  password: var.db_password
  api_key = module.vault.api_key_arn
  private_key_path = "~/.ssh/id_ed25519"
  key_file: /etc/ssl/private/server.key
  secretName: my-app-tls-secret
  secretKeyRef: {name: db-credentials, key: password}
    authToken: authTokenSelector(state),
    csrfToken: this.csrfTokenService.getToken(),
  PrivateKey: keyPair.PrivateKey.ExportPkcs8(),
  password: passwordSchema.min(8).max(128),
  tokenType: TokenType.AccessToken,
  keyof: keyof typeof config
  secret: Buffer.from(secret, "base64url"),
  self._token = token or self._default_token
  apiKeyHeader: X-Api-Key
  assert user.check_password("correct")
  expect(getByLabelText("Password")).toBeInTheDocument()
  passwordInput: HTMLInputElement
  accessKeyId: credentials.accessKeyId,
  pass: PassThrough,
  passphrase: Zeroizing<Vec<u8>>,
  hostKeyVerification: StrictHostKeyChecking,
  private_key: &ed25519_dalek::SigningKey,
  token_stream: proc_macro2::TokenStream,
  pub fn new(secret: impl Into<SecretString>) -> Self {
        Pwd: `\\home\\src\\project\\src\\deep`,
          $env:GOMODCACHE = Join-Path $PWD "gomodcache"
    --- PASS: TestParseExtends/omitted_fields_fall_back_to
"score":1,"verdict":"pass","assertions":[{"text":"Valid"}]
All files pass `markdownlint-cli2` with the repo config
    let signing_key = ed25519_dalek::SigningKey::generate(&mut rand::rngs::OsRng);
  privateKey: Uint8Array
| Base commit the reviewer read (**the lookup key**) | `c1b71316116bb921cbb20086fd66e090a982e43b` |
sleep 10 && ssh -i ~/.ssh/ci-deploy-key root@192.0.2.15 "cd /opt/app"
Restored cache for the linter from key 'linter.cache-Linux-src-2951-cc2b503e6f0f6722345e9c0c2b4a47378e8' in 376ms
 credentials                              openclaw.json.bak.03172026.1800
read back as the same ANSI token "transparent" once decoded
API_KEY = keyring.get_password("aim-system", "google-api-key")
keyring.set_password("aim-system", "google-api-key", key)
keyring.delete_password('aim-system', 'google-api-key')
derived deterministically via `HKDF(privateKey, "cipherbox-file-ipns-v1-{fileId}")`, while folder keys are
flags.PWD = *envFlags.PWD
    "pwd": "osc99",
| TestTransient | skip (platform) | **PASS** | **PASS** |
f"BadRequest please pass param={_enforced_params[0]} in request body"
d=(()=>{let{accessToken:e}=(0,c.f)(),s=(0,r.d)();return(0,l.f)({mutationFn:async()=>s})})()
O().createElement("label",{htmlFor:"auth_password"},"Password:"),u?O().createElement("code",null,"x"):null
pc_fallback = ['become_user', 'become_pass', 'become_flags', 'become_exe']
"enum": ["password", "multiline", "email", "url"]
  readonly STENCIL_PASS_DEPTH_PASS: 0x0B96;
W ActivityManager: Bad activity token: android.os.BinderProxy@2bd79ce
"Credential=AKIDEXAMPLE/20150830/us-east-1/sts/aws4_request",
they continue to use a valid token. `k8s.io/client-go` version v11.0.0+ and later reload tokens
Use superpowers:subagent-driven-development (recommended) or start_line: 1031 to read on
the user list has been redirected >output.log
| id | password | type |
# TEST_LOGIN_SECRET=e2e-test-secret-do-not-use-in-production
pwd=XMLHttpRequestUpload
pwd: Base64String
password: ComponentFactoryResolver2
pwd=getpwnam_r_v2
password=kUTF8StringEncoding
password: "Password*"
"password": "密码至少8位!",
password: "パスワードは8文字以上"
"invalid password": AuthenticationError,
Replace "username" and/or "password" with "userinfo".
# Return with login / password login_i = 0 if _netrc[0] else 1
 AND the name contains the string "test_db" * The operation's metadata
#define SSL_TXT_DHE "DHE" /* same as "kDHE:-ADH" */
smtp.add_feature("AUTH CRAM-MD5")
'2.5.4.35': ('2.5.4.35', OID_ATTRIBUTE_TYPE, 'userPassword', 'RFC4519'),
'sk': 'sk_SK.ISO8859-2',
ADDITIONAL_CLOUD_CREDENTIALS: T1098.001
Gost28147_89_EncryptedKey = rfc4357.Gost28147_89_EncryptedKey
MLKEM768X25519PrivateKey = rust_openssl.hpke.MLKEM768X25519PrivateKey
cryptoKey = _messages.MessageField('GooglePrivacyDlpV2CryptoKey', 2)
token = r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
_BEARER_ACCESS_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"pattern":"[a-zA-Z0-9_.-]+",
To generate valid datetimes, pass `dtype="datetime64[ns]"`
Pass 'package_name' to disambiguate.
guessed %r container type (pass `asn1Spec` to guide)
- Breaking: Properties `chaos_secondary_pass`, `coherence_non_latin` and `w_counter`
The timeout in seconds to pass to httplib2.  This is the socket timeout
@unittest.skipUnless(hasattr(pwd, 'getpwall'), 'no pwd')
return (getattr(credentials, 'service_account_email', None) or
if not hasattr(self.passwd, 'is_authenticated'):
def add_password(self, realm, uri, user, passwd, is_authenticated=False):
('http', 'user/name', 'password', 'localhost:22')
# METHOD can be "trust", "reject", "md5", "password", "scram-sha-256", "gss"
kpasswd		464/tcp
xmlsec1 encrypt --deskey deskey.bin --binary-data binary.dat
#define CKF_CLOCK_ON_TOKEN 0x00000040UL
#define TLS1_RT_CRYPTO_KEY (TLS1_RT_CRYPTO | 0x6)
#define OBJ_userPassword                OBJ_X509,35L
#define SN_kx_ecdhe_psk         "KxECDHE-PSK"
P11_KIT_URI_FOR_OBJECT_ON_TOKEN | P11_KIT_URI_FOR_MODULE,
SRP_user_pwd *SRP_user_pwd_new(void);
extern const SEC_ASN1Template SEC_PointerToPKCS12X509CertCRLTemplate_OLD[];
int gnutls_x509_crq_get_challenge_password(gnutls_x509_crq_t crq, char *pass);
if -debug-pass=Executions or higher is specified.
the triad of machine name, user id, and password are present in
perldoc -opod Some::Modulename
'X-Amz-Credential': '%s/%s/%s/%s/aws4_request' % (
The temporary password expires.</p> <p>Range: 900-3600. Default: 900.</p>
task_token, 'Cancelling!')
these fields: * "description" * "file_shares" * "labels" *
[\"arn:aws:backup:*:*:backup-vault:asdf-*\"]
commit/05cbd3167c12e4930f09ef7cf93b127ba4effae4#diff-124380949022817b90b622871837d56cR31
style-src 'self' 'nonce-N2M0MDhkN2EtMmRkYi00MTExLWFhM2YtNDhkNTc4NGJhMjA3';
that you can pass to 3rd-party components. For example
didScheduleRenderPhaseUpdateDuringThisPass=didScheduleRenderPhaseUpdate=!0;var pending=queue.pending
"URL that includes credentials: "+A)}s=makeRequest({urlList:[t]});n="cors"}else{this[L]=e.dispatch}
username:s.username,password:s.password,hostname:s.hostname,port:s.port,search:s.search!==""
username:j,password:j,hostname:j,port:j,search:j,hash:j},t,!0)),Jt(i(this,M).protocol)===i
set password(value){this[Internal].url.password=value}get username(){return this[Internal].url}
username=parsedURL.username,password=parsedURL.password,auth=username?password?`${username}`:""
e["x-next-revalidate-tag-token"]===t?e[tt].split(","):[]}(s,this.previewProps)
resets.image[key]=PRELOAD_NO_CREDS,headers.highImagePreloads&&(headers.highImagePreloads+=", ")
processor: googlecloudsdk.command_lib.looker.instances_util:ParseToDateTypeV1
--region=us-central1 --ssh-keys=ssh-key-1,ssh-key-2 --kms-key-version=sample
self.assertEqual(flags, ['--decryption-keys=key1,key12,key100'])
\ 'flag-message', 'followup-message', 'forget-passphrase', 'forward-char',
"""


@pytest.mark.parametrize("line", [line for line in LINES.split("\n") if line])
def test_line_stays(line: str) -> None:
    assert redact(line) == line


@pytest.mark.parametrize("before", ["", "    12→", "src/app.ts:12:", "+", "  12\t"])
def test_all_lines_stay_together(before: str) -> None:
    text = "\n".join(before + line for line in LINES.split("\n"))
    assert redact(text) == text


def test_beside_a_telling_name_a_value_still_goes() -> None:
    """The signs that make the lines above harmless hide no secret."""
    for line in ("password: hunter2x9!", "PASS=q8Zk2mVt41", 'token "q8Zk2mVt41Lp0xWn7Rtb"', "pwd=Zk2!mVt41q"):
        assert redact(line) != line


LISTINGS = (
    "syn keyword\tpfService\tkpasswd\nsyn keyword\tpfService\tkrb524\nsyn keyword\tpfService\tmicrosoft-ds\n",
    "syn keyword sqlFunction  sp_password\nsyn keyword sqlFunction  sp_placeobject\nsyn keyword sqlFunction  sp_x\n",
    'could be different types identified\n  by "action_result" field. Supported types: 1. D\n',
    """    names = (
        "auth_param", "login", "cache_peer", "password", "cache_swap",
        "cache_swap_high", "cache_swap_log", "cache_swap_low", "client_db", "connect_timeout",
    )
""",
    """            if mode == "basic":
                curl.setopt(pycurl.USERPWD, userpwd)
                curl.setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
""",
    """    def __init__(self, host, proxy_pass,
                 user, proxy_port, proxy_password,
                 debug, path=path, https_connection_factory=None):
""",
    """              mail_user, smtp_password, mail_enable_sendmail,
              mail_show_mail_body, mail_allow_tls, search_index_path,
              user_login_url, user_logout_url, default_gcs_bucket_name,
""",
)


@pytest.mark.parametrize("text", LISTINGS)
def test_lists_of_names_are_no_tables(text: str) -> None:
    assert redact(text) == text
