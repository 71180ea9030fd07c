"""Types of rule files that are first asked for by several threads at once."""

import subprocess
import sys

RACE = """
import sys, threading
from penumbra import rules
from penumbra.rule_schemas import names, schema, schema_of
sys.setswitchinterval(1e-6)
files = [(schema_of(name), rules.parse(rules.directory() / name, name)) for name in names() if name.endswith(".yaml")]
begin, read = threading.Barrier(4), []
def convert():
    for kind, content in files:
        begin.wait()
        read.append(schema.convert(kind, content, "x"))
threads = [threading.Thread(target=convert) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(read) - 4 * len(files))
"""


def test_threads_may_read_rules_at_once():
    """Without a lock most runs end with signal 11."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
