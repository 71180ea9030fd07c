"""A user's gitleaks.toml with a rule of their own."""

from support.planted import GITHUB

TICKET = "TKT-" + "482915"


FILE = """
[[rules]]
id = "acme-ticket"
regex = '''TKT-[0-9]{6}'''
[[rules]]
id = "names-a-path"
path = '''x'''
"""


TEXT = f"see {TICKET} and {GITHUB} today\n"
