"""Lines of code, settings, logs and prose in which no secret stands, whatever rule is tried on them."""

from __future__ import annotations

import re

from penumbra.redaction.redactor import Redactor

LINES = r"""
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
Das Passwort ist mindestens 12 Zeichen lang.
""".strip("\n").split("\n")


def test_harmless_lines_stay(redactor: Redactor) -> None:
    assert [line for line in LINES if redactor.redact(line).text != line] == []
    whole = "\n".join(LINES)
    assert redactor.redact(whole).text == whole


SECRETS = r"""
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
"""Beside lines that stay: what they begin or look like, and a secret all the same."""


def test_what_is_like_a_harmless_line_does_not_hide_a_secret(redactor: Redactor) -> None:
    for line in SECRETS:
        before, _, rest = line.partition("⟦")
        secret, _, behind = rest.partition("⟧")
        redacted = redactor.redact(before + secret + behind).text
        form = re.escape(before) + r"\[REDACTED:[^\[\]]+\]" + re.escape(behind)
        assert re.fullmatch(form, redacted), line
