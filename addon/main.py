"""What `mitmdump -s addon/main.py` loads; the rest is in the package, which hot reload leaves alone."""

from penumbra.addon import Penumbra

addons = [Penumbra()]
