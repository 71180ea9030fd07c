"""Code and listings that name secrets and hold none stay unchanged.

An agent edits the code that it has read, and would write a placeholder into the file.
"""

from __future__ import annotations

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.redactor import Redactor

REDACTOR = Redactor(LIBRARY_KEY)
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
    assert REDACTOR.redact(line).text == line


@pytest.mark.parametrize("before", ["", "    12→", "src/app.ts:12:", "+", "  12\t"])
def test_all_lines_stay_together(before: str) -> None:
    text = "\n".join(before + line for line in LINES.split("\n"))
    assert REDACTOR.redact(text).text == text


def test_beside_a_telling_name_a_value_still_goes() -> None:
    """The signs that make the lines above harmless hide no secret."""
    for line in ("password: hunter2x9!", "PASS=q8Zk2mVt41", 'token "q8Zk2mVt41Lp0xWn7Rtb"', "pwd=Zk2!mVt41q"):
        assert REDACTOR.redact(line).counts


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
    assert REDACTOR.redact(text).text == text
