"""This script loads the addon for `mitmdump -s addon/main.py`. The rest is in the package, which a reload of
this script leaves loaded."""

import logging

addons = []
try:
    from penumbra.addon import Penumbra
except ModuleNotFoundError as missing:
    # An error that is logged ends mitmproxy's start; the exception would do so behind a traceback.
    logging.error(
        f"penumbra: the Python that runs mitmproxy lacks the package {missing.name}: `pip install .` in "
        "Penumbra's folder, by that Python, brings it. Or start scripts/run. mitmproxy's own binaries can't."
    )
else:
    addons.append(Penumbra())
