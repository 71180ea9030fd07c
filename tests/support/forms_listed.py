"""Secrets that no name stands right in front of: lists of users, keys and values that alternate, cells, sentences
in many languages. Holes as in `secret_contexts`; beside each kind, what looks like it and holds none."""

from __future__ import annotations

USER_LISTS = {
    "pgbouncer": '"shop_rw" "{v}"\n"shop_ro" "{v}"\n',
    "pgbouncer by its file": '# /etc/pgbouncer/userlist.txt\n"billing" "{v}"\n',
    "pgbouncer behind grep": 'userlist.txt:1:"shop" "{v}"\n',
    "ppp with its comment": "# client\tserver\tsecret\tIP addresses\nalice\t*\t{v}\t192.168.4.2\n",
    "ppp in quotes": '"bob@isp.example"  *  "{v}"  *\n',
    "ppp by its server": "vpnuser pptpd {v} 10.0.0.17\n",
    "ppp by its file": "/etc/ppp/chap-secrets\nalice l2tpd {v} *\n",
    "jmx": "monitorRole  {v}\ncontrolRole  {v}\n",
    "jmx by its file": "cat jmxremote.password\noperator {v}\n",
    "rsync": "rsyncd.secrets\nbackup:{v}\n",
    "dovecot": "bob:{PLAIN}{v}::::::\n",
    "freeradius": 'bob   Cleartext-Password := "{v}"\n',
}
NO_USER_LISTS = (
    '"Accept" "application/json"\n',
    '"build" "v1.2.3-rc4"\n',
    '"darwin" "arm64"\n',
    '"GET" "/index.html"\n"POST" "/login2"\n',
    "monitorRole readonly\ncontrolRole readwrite\n",
    "name pptpd enabled 10.0.0.17\n",
    "alice * * *\n",
    "postgres 15.4 running 10.0.0.17\n",
    "tcp LISTEN 0.0.0.0:8080 *\n",
    "carol:private area:see the wiki\n",
    "daemon:*:19700:0:99999:7:::\n",
    'lodash@^4.17.21:\n  version "4.17.21"\n',
)

ALTERNATING = {
    "lines": "username\napp\ndb_password\n{v}\nhost\ndb1\n",
    "redis": "redis-cli hgetall session:9\nuid\n17\nauth_password\n{v}\nttl\n300\n",
    "quoted lines": '"host"\n"db1"\n"db_password"\n"{v}"\n',
    "numbered": '1) "user"\n2) "bob"\n3) "smtp_pass"\n4) "{v}"\n',
    "within a string": '{"stdout": "name\\nbob\\npassword\\n{v}\\nrole\\nadmin\\n"}',
    "indented": "  username\n    bob\n  password\n    {v}\n",
    "carriage returns": "password\r\n{v}\r\nuser\r\nbob\r\n",
}
NOT_ALTERNATING = (
    "username\npassword\nemail\nphone2\n",
    "Enter password\nStep2\nDone\n",
    "token\ntokens2\ntokenizer_v2\n",
    "features\nlogin\npassword\nreset-v2\n",
    "api_key\napi_key_v2\napi_key_id\n",
    "Username\nPassword\nLogin42\n",
    "password\noauth2\nsaml2\n",
    "password\n--------\n",
    "columns:\npassword\nvarchar(255)\n",
    "try:\n    pass\nDATABASE_URL = load(1)\n",
    "password\n9fceb02d0ae598e95dc970b74767f19372d61af8\n",
    "token\n2024-01-02\nuser\n",
)

SAID = {
    "use as": "use {v} as the password\n",
    "is the": "{v} is the root password of the box\n",
    "set on": "the root password on db1 was set to {v} by ops\n",
    "aside": "her password ({v}) is on a note\n",
    "credentials": "the credentials are bob and {v}\n",
    "user and password": "log in with user admin and password {v}\n",
    "German": "Das Passwort ist {v} und gilt bis Freitag.\n",
    "German for": "Das neue Passwort für root heißt {v}\n",
    "German user": "Melde dich mit Benutzer bob und Passwort {v} an.\n",
    "French": "Le nouveau mot de passe de root est {v}\n",
    "French adjective": "Votre mot de passe provisoire : {v}\n",
    "Spanish": "La contraseña es {v}\n",
    "Spanish of": "La clave del router es {v}\n",
    "Spanish adjective": "Tu contraseña temporal es {v}\n",
    "Portuguese": "A senha é {v}\n",
    "Italian": "La password è {v}\n",
    "Dutch": "Het wachtwoord is {v}\n",
    "Russian": "пароль для root — {v}\n",
    "Chinese": "密码是 {v}\n",
    "Chinese without spaces": "密码为{v}，请尽快修改\n",
    "Chinese with user": "用户名 admin 密码 {v}\n",
    "Japanese": "パスワードは {v} です\n",
    "Korean": "비밀번호는 {v} 입니다\n",
}
NOT_SAID = (
    "The password is hashed with argon2id\n",
    "Use bcrypt2 as the password hasher\n",
    "PBKDF2 is the password function\n",
    "password is base64-encoded\n",
    "the pass is step2\n",
    "your password is expired since 2024-01-02\n",
    "the credentials are loaded from ~/.aws/credentials\n",
    "Das Passwort ist zu kurz (mind. 8 Zeichen).\n",
    "Le mot de passe est trop court (8 min)\n",
    "Votre mot de passe a expiré le 12/03/2024\n",
    "La contraseña es demasiado corta\n",
    "密码长度至少8位\n",
    "用户名或密码错误 (code 401)\n",
    "パスワードは8文字以上です\n",
    "비밀번호는 8자 이상이어야 합니다\n",
    "Пароль не совпадает\n",
)

PHRASES = (
    "Velvet Otter 42!",
    "blue Mango 7 sky",
    "correct horse battery staple",
    "copper falcon meadow lake",
    "my dog eats 2 bones",
    "Red Panda 2020",
    "open sesame 99",
    "k9 unit Rex!",
)
NO_PHRASES = (
    "Enter your password",
    "must have 8 characters",
    "At least 8 characters, 1 number",
    "Step 2 of 3",
    "Use 8 or more characters!",
    "incorrect username or password",
    "string (8-64)",
    "your first pet 1",
    "3 of 5 tests",
    "next page of 20",
    "not set yet!",
    "the one that was used before",
)

CELLS = {
    "user's cell": "| admin | {v} | superuser |\n",
    "user, address": "| root | 10.0.0.5 | {v} |\n",
    "user in CSV": "admin,{v},10.0.0.5\n",
    "name in the middle": "17,db_password,{v},prod\n",
    "name in a row": "| 3 | smtp_password | {v} | 2031-01-02 |\n",
    "glued": '\'"api_key"Zk82hVtLqPxw73aa{v}',
}
"""Values with a sign."""
NO_CELLS = (
    "| password | string | required |\n",
    "| password | varchar(255) | NO |\n",
    "| api_key | ApiKeyAuth2 | header |\n",
    "admin,editor2,viewer\n",
    "| admin | user2@example.net | active |\n",
    "1 | bob | password | reset2\n",
    '\'"api_key"required',
    '"apiKey"ApiKeyV2Authentication',
)
