"""What `mitmdump -s addon/main.py` loads; the rest is in the package, which hot reload leaves alone."""

try:
    from penumbra.addon import Penumbra
except ModuleNotFoundError as error:
    # Without this mitmproxy shows a traceback.
    raise SystemExit(
        f"penumbra: the Python that runs mitmproxy has no package {error.name}: `pip install .` in Penumbra's "
        "folder, with that Python, brings it, or start scripts/run. mitmproxy's own binaries can't have it."
    ) from None

addons = [Penumbra()]
