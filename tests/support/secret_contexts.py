"""Texts as tools print them, with a hole for a secret: the places where secrets are met."""

from __future__ import annotations

import json
import random
import string

NAMED = {
    "dotenv": "# settings\nMODE=production\n{UPPER}={v}\nPORT=80\n",
    "dotenv quoted": 'MODE="production"\n{UPPER}="{v}"\n',
    "shell export": "export MODE=1\nexport {UPPER}='{v}'\n",
    "systemd": "[Service]\nEnvironment={UPPER}={v}\nExecStart=/usr/bin/app\n",
    "systemd quoted": '[Service]\nEnvironment="{UPPER}={v}"\n',
    "dockerfile": "FROM alpine\nENV {UPPER}={v}\nARG X=1\n",
    "dockerfile space": "FROM alpine\nENV {UPPER} {v}\nRUN true\n",
    "compose list": "services:\n  app:\n    environment:\n      - MODE=prod\n      - {UPPER}={v}\n",
    "kubernetes env": "env:\n- name: MODE\n  value: prod\n- name: {UPPER}\n  value: {v}\n- name: LAST\n",
    "kubernetes env quoted": 'env:\n  - name: {UPPER}\n    value: "{v}"\n',
    "task definition": '{"environment":[{"name":"MODE","value":"x"},{"name":"{UPPER}","value":"{v}"}]}',
    "task definition pretty": '[\n  {\n    "name": "{UPPER}",\n    "value": "{v}"\n  }\n]',
    "toml": '[db]\nhost = "db1"\n{lower} = "{v}"\n',
    "ini": "[db]\nhost = db1\n{lower} = {v}\nport = 5432\n",
    "ini tight": "[db]\nhost=db1\n{lower}={v}\n",
    "properties": "app.host=db1\napp.{dots}={v}\napp.port=1\n",
    "yaml quoted": "db:\n  host: db1\n  {lower}: '{v}'\n",
    "yaml": "db:\n  host: db1\n  {kebab}: {v}\n  port: 5432\n",
    "json": '{"host": "db1", "{lower}": "{v}", "port": 1}',
    "json camel": '{\n  "host": "db1",\n  "{camel}": "{v}"\n}',
    "json in json": json.dumps({"body": '{"{camel}":"{v}","n":1}'}),
    "javascript": "module.exports = {\n  host: 'db1',\n  {camel}: '{v}',\n};\n",
    "typescript": 'export const {camel}: string = "{v}";\n',
    "java": 'private static final String {UPPER} = "{v}";\n',
    "c#": 'public const string {Pascal} = "{v}";\n',
    "go": 'var {camel} = "{v}"\n',
    "go field": '\tcfg := Config{\n\t\t{Pascal}: "{v}",\n\t}\n',
    "rust": 'const {UPPER}: &str = "{v}";\n',
    "php": "define('{UPPER}', '{v}');\n",
    "php array": "    '{lower}' => '{v}',\n",
    "perl": "my ${lower} = '{v}';\n",
    "ruby hash": "config = { {lower}: '{v}', host: 'db1' }\n",
    "kotlin": 'val {camel} = "{v}"\n',
    "swift": 'let {camel} = "{v}"\n',
    "python dict": "{'host': 'db1', '{lower}': '{v}'}\n",
    "python environ": "os.environ['{UPPER}'] = '{v}'\n",
    "python getenv": 'x = os.getenv("{UPPER}", "{v}")\n',
    "node env": 'process.env.{UPPER} = "{v}";\n',
    "powershell": '$env:{UPPER} = "{v}"\n',
    "cmd": "set {UPPER}={v}\r\n",
    "fish": "set -x {UPPER} {v}\n",
    "csh": "setenv {UPPER} {v}\n",
    "make": "{UPPER} := {v}\n",
    "gradle": "{camel}={v}\norg.gradle.daemon=true\n",
    "xml attribute": '<server {camel}="{v}" port="1"/>\n',
    "xml add": '<add key="{Pascal}" value="{v}" />\n',
    "xml property": '<property name="{dots}" value="{v}"/>\n',
    "xml text": "<{camel}>{v}</{camel}>\n",
    "plist": "<key>{camel}</key>\n<string>{v}</string>\n",
    "android": '<string name="{lower}">{v}</string>\n',
    "html input": '<input type="hidden" name="{lower}" value="{v}">\n',
    "flag equals": "$ app serve --{kebab}={v} --port 80\n",
    "flag space": "$ app serve --{kebab} {v} --port 80\n",
    "flag quoted": "$ app serve --{kebab} '{v}' --port 80\n",
    "flag list": 'command: ["app", "--{kebab}", "{v}", "--port", "80"]\n',
    "docker -e": "docker run -d -e {UPPER}={v} img\n",
    "helm": "helm install x y --set auth.{camel}={v}\n",
    "query": "GET /v1/items?page=2&{lower}={v}&sort=asc HTTP/1.1\n",
    "form body": "user=app&{lower}={v}&grant=x\n",
    "header": "> X-{Header}: {v}\n> Accept: */*\n",
    "curl header": "curl -H 'X-{Header}: {v}' https://example.net/\n",
    "curl data": 'curl -d \'{"{lower}":"{v}"}\' https://example.net/\n',
    "markdown table": "| name | value |\n|---|---|\n| {lower} | {v} |\n",
    "markdown code": "Set `{UPPER}` to `{v}` and restart.\n",
    "log": "2031-01-01T00:00:00Z INFO starting host=db1 {lower}={v} port=1\n",
    "log json": '{"level":"info","ctx":{"{camel}":"{v}"}}\n',
    "logfmt quoted": 'level=info {lower}="{v}" n=1\n',
    "table": "NAME          VALUE\n{UPPER}   {v}\nLAST   1\n",
    "tab": "mode\tprod\n{lower}\t{v}\n",
    "set -x": "+ {UPPER}={v}\n+ ./run\n",
    "tfstate": '"attributes": {\n  "id": "x-1",\n  "{lower}": "{v}"\n}\n',
    "ansible": '    {lower}: "{v}"\n    state: present\n',
    "hcl": 'variable "x" {\n  {lower} = "{v}"\n}\n',
    "nested value": '"{lower}": {\n  "sensitive": true,\n  "value": "{v}"\n}\n',
    "debug repr": "Config(host='db1', {lower}='{v}', port=1)\n",
    "go struct dump": '{Host:"db1" {Pascal}:"{v}" Port:1}\n',
    "sql set": "SET {lower} = '{v}';\n",
    "gh secret": "gh secret set {UPPER} --body '{v}'\n",
    "ci variable": "variables:\n  {UPPER}: '{v}'\n",
    "yaml block": "db:\n  {lower}: |\n    {v}\n  port: 5432\n",
    "yaml folded": "db:\n  {kebab}: >-\n    {v}\n  port: 5432\n",
    "toml lines": '[db]\n{lower} = """\n{v}"""\n',
    "c array": 'static const char {lower}[] = "{v}";\n',
    "rust some": 'Config { host: "db1", {lower}: Some("{v}"), n: 1 }\n',
    "php dump": 'array(1) {\n  ["{lower}"]=>\n  string(32) "{v}"\n}\n',
    "query in query": "next=https%253A%252F%252Fx%253F{lower}%253D{v}%2526a%253D1\n",
    "rails": 'config.{lower}_base = "{v}"\n',
    "psql": " id | name | {lower} \n----+------+---------\n  1 | bob  | {v}\n(1 row)\n",
    "mysql": "+----+-----+\n| id | {lower} |\n+----+-----+\n|  1 | {v} |\n+----+-----+\n",
    "csv": "name,{lower},role\nbob,{v},admin\n",
    "csv quoted": '"name","{lower}"\n"bob","{v}"\n',
    "tsv": "name\t{lower}\nbob\t{v}\n",
    "semicolons": "name;{lower};role\nbob;{v};admin\n",
    "markdown column": "| name | {lower} |\n|---|---|\n| bob | {v} |\n",
    "aligned": "NAME   {UPPER}                            AGE\nbob    {v}    3d\n",
    "appsettings": '{"Auth": {"{Pascal}": "{v}"}}\n',
}

PASSWORDS = {
    "postgres url": "DATABASE_URL=postgres://app:{v}@db1:5432/shop\n",
    "mysql url": "mysql://app:{v}@db1/shop\n",
    "mongodb url": "mongodb+srv://app:{v}@cluster0.example.net/shop\n",
    "amqp url": "amqp://app:{v}@mq:5672/%2F\n",
    "redis url": "redis://default:{v}@cache:6379/0\n",
    "smtp url": "smtps://app:{v}@mail.example.net:465\n",
    "ftp url": "curl ftp://app:{v}@files.example.net/x\n",
    "proxy": "HTTPS_PROXY=http://app:{v}@proxy:3128\n",
    "git credentials": "https://app:{v}@git.example.net\n",
    "sqlalchemy": 'create_engine("postgresql+psycopg2://app:{v}@db1/shop")\n',
    "ado": "Server=db1;Database=shop;User Id=app;Password={v};Encrypt=true\n",
    "odbc": "DRIVER={x};SERVER=db1;UID=app;PWD={v};\n",
    "jdbc query": "jdbc:postgresql://db1/shop?user=app&password={v}&ssl=true\n",
    "libpq": "host=db1 user=app password={v} dbname=shop\n",
    "curl user": "curl -u app:{v} https://example.net/\n",
    "curl user long": 'curl --user "app:{v}" https://example.net/\n',
    "wget": "wget --user=app --password={v} https://example.net/\n",
    "mysql -p": "mysql -h db1 -u app -p{v} shop\n",
    "mysql --password": "mysqldump -u app --password={v} shop\n",
    "sshpass": "sshpass -p '{v}' ssh app@h1\n",
    "redis-cli": "redis-cli -h cache -a {v} ping\n",
    "pgpassword": "PGPASSWORD={v} psql -h db1 -U app shop\n",
    "mongo": "mongosh -u app -p '{v}' db1\n",
    "docker login": "docker login -u app -p {v} r.example.net\n",
    "ldap": "ldapsearch -x -D cn=app -w {v} -b dc=x\n",
    "sql identified": "CREATE USER app IDENTIFIED BY '{v}';\n",
    "sql role": "ALTER ROLE app WITH PASSWORD '{v}';\n",
    "sql create role": "CREATE ROLE app LOGIN PASSWORD '{v}';\n",
    "netrc": "machine git.example.net login app password {v}\n",
    "netrc lines": "machine git.example.net\n  login app\n  password {v}\n",
    "pgpass": "db1:5432:shop:app:{v}\n",
    "pypirc": "[pypi]\nusername = app\npassword = {v}\n",
    "my.cnf": "[client]\nuser=app\npassword={v}\n",
    "smb": "username=app\npassword={v}\ndomain=CORP\n",
    "prose": "The password is {v}, please change it.\n",
    "prose colon": "User: app\nPassword: {v}\n",
    "wifi": 'network={\n  ssid="x"\n  psk="{v}"\n}\n',
    "requirepass": "requirepass {v}\nport 6379\n",
    "maven": "<server>\n  <username>app</username>\n  <password>{v}</password>\n</server>\n",
    "jdbc oracle": "jdbc:oracle:thin:app/{v}@//db1:1521/shop\n",
    "french": "mot de passe : {v}\n",
    "xml escaped": "<password>{v}&amp;{v}</password>\n",
    "docker stdin": "echo {v} | docker login -u app --password-stdin r.example.net\n",
    "ansible become": "ansible_become_password: {v}\nansible_user: app\n",
}

TOKENS = {
    "bearer": "Authorization: Bearer {v}\n",
    "bearer curl": 'curl -H "Authorization: Bearer {v}" https://example.net/\n',
    "token header": "Authorization: token {v}\n",
    "bare header": "authorization: {v}\n",
    "oauth json": '{"access_token":"{v}","token_type":"Bearer","expires_in":3600}\n',
    "refresh": '{"refresh_token": "{v}", "scope": "x"}\n',
    "npmrc": "//registry.example.net/:_authToken={v}\n",
    "pip url": "index-url = https://__token__:{v}@pypi.example.net/simple\n",
    "git remote": "origin\thttps://oauth2:{v}@git.example.net/a/b.git (fetch)\n",
    "git remote bare": "url = https://{v}@git.example.net/a/b.git\n",
    "kubeconfig": "users:\n- name: x\n  user:\n    token: {v}\n",
    "cargo": '[registry]\ntoken = "{v}"\n',
    "gem": "---\n:rubygems_api_key: {v}\n",
    "cookie": "Cookie: theme=dark; session={v}; lang=en\n",
    "set-cookie": "Set-Cookie: sid={v}; Path=/; HttpOnly\n",
    "jupyter": "http://127.0.0.1:8888/?token={v}\n",
    "curl cookie": "curl -b 'session={v}; theme=dark' https://example.net/\n",
    "add-mask": "::add-mask::{v}\n",
    "kubeadm": "TOKEN    TTL   EXPIRES\n{v}    23h   2031-01-01T00:00:00Z\n",
    "vault login": "Key      Value\n---      -----\ntoken    {v}\ntoken_policies [x]\n",
    "cat token": "$ cat ~/.vault-token\n{v}\n",
    "websocket": "wss://example.net/ws?access_token={v}\n",
    "sas": "https://a.blob.example.net/c?sv=2031&sig={v}\n",
    "x-api-key": "x-api-key: {v}\n",
    "terraformrc": 'credentials "app.example.net" {\n  token = "{v}"\n}\n',
    "hub": "github.com:\n- user: x\n  oauth_token: {v}\n",
    "private-token": "curl --header 'PRIVATE-TOKEN: {v}' https://git.example.net/\n",
}

NAMES = [
    "db_password",
    "auth_token",
    "client_secret",
    "api_key",
    "secret_key",
    "encryption_key",
    "session_secret",
    "refresh_token",
    "passwd",
    "deploy_token",
    "service_account_key",
    "consumer_secret",
    "license_key",
    "private_key",
    "passphrase",
    "root_pwd",
]


def values(seed: int) -> dict[str, str]:
    """Synthetic secrets of each make; the same for the same seed."""
    rnd = random.Random(seed)
    mixed = string.ascii_letters + string.digits

    def word(alphabet: str, length: int) -> str:
        return "".join(rnd.choice(alphabet) for _ in range(length))

    return {
        "base62": word(mixed, 40),
        "hex": word("0123456789abcdef", 32),
        "base64": word(mixed + "+/", 43) + "=",
        "urlsafe": word(mixed + "-_", 43),
        "short": word(mixed, 13) + "7",
        "signs": word(mixed + "!#%^*~-_.", 19) + "4x",
    }


HUMAN = ("Sommer-2031", "purpleHorse88", "Pa55phrase!", "tr1ckyW0rd", "Zebra_Crossing4", "openupnow99")


def spelt(name: str) -> dict[str, str]:
    """A name in the spellings that the templates use."""
    words = name.split("_")
    pascal = "".join(word.capitalize() for word in words)
    return {
        "{UPPER}": name.upper(),
        "{lower}": name,
        "{kebab}": "-".join(words),
        "{dots}": ".".join(words),
        "{camel}": pascal[0].lower() + pascal[1:],
        "{Pascal}": pascal,
        "{Header}": "-".join(word.capitalize() for word in words),
    }


def fill(template: str, value: str, name: str = "") -> str:
    """The template with the value, and the name in all its spellings."""
    for hole, text in (spelt(name) if name else {}).items():
        template = template.replace(hole, text)
    return template.replace("{v}", value)


DECORATIONS = {
    "none": lambda text: text,
    "numbered": lambda text: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1)),
    "arrows": lambda text: "\n".join(f"{n:6}→{line}" for n, line in enumerate(text.split("\n"), 1)),
    "grep": lambda text: "\n".join(f"conf/app.txt:{n}:{line}" for n, line in enumerate(text.split("\n"), 1)),
    "diff": lambda text: "\n".join("+" + line for line in text.split("\n")),
    "crlf": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "colours": lambda text: "\n".join(f"\x1b[33m{line}\x1b[0m" for line in text.split("\n")),
    "json": lambda text: json.dumps({"stdout": text}),
    "json twice": lambda text: json.dumps({"out": json.dumps({"stdout": text})}),
}
