"""Sentences and banners that tell a password. Holes as in `secret_contexts`."""

from __future__ import annotations

TOLD = {
    "sentences 1": "Your temporary password is {v}\n",
    "sentences 2": "A temporary password is generated for root@localhost: {v}\n",
    "sentences 3": "Generated root password: {v}\n",
    "sentences 4": "GENERATED ROOT PASSWORD: {v}\n",
    "sentences 5": "Please use the following password to proceed to installation:\n\n{v}\n\nThis may also be found at: /x\n",
    "sentences 6": "Password for the elastic user (reset with `x`):\n  {v}\n",
    "sentences 7": "The generated password for the elastic built-in superuser is : {v}\n",
    "sentences 8": "New password for user bob: {v}\n",
    "sentences 9": "Login with username: admin and password: {v}\n",
    "sentences 10": "Log in as admin / {v} (password)\n",
    "sentences 11": "credentials: admin / {v}\n",
    "sentences 12": "username admin, password {v}\n",
    "sentences 13": "user=admin pass={v}\n",
    "sentences 14": "Use admin:{v} to log in.\n",
    "sentences 15": "default login: admin/{v}\n",
    "sentences 16": 'The admin password has been set to "{v}".\n',
    "sentences 17": "Password set to {v}\n",
    "sentences 18": "password changed from old1Pass9 to {v}\n",
    "sentences 21": "Initial admin password: {v}\n",
    "sentences 22": "pw: {v}\n",
    "sentences 23": "Username: admin\nPassword: {v}\n",
}
