"""This package retries requests that a provider refuses as too large or for another reason
that Penumbra can mend."""
