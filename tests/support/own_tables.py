"""Schemas of the rule files that users can't add to. Each file says at its top what it holds."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from penumbra import rule_schemas
from penumbra.rule_schemas.providers import Providers
from penumbra.rule_schemas.schema import AnyRegex, Count, Regex, Share, Size, Strict

Positive = Annotated[float, Meta(ge=0)]


class Hole(Strict, frozen=True):
    """A version with a known hole."""

    package: str
    fixed: str
    id: str
    what: str
    alone: str = ""
    shows_flows: bool = False


class Advisories(Strict, frozen=True):
    """`advisories.yaml`."""

    date: date
    holes: tuple[Hole, ...]
    examples: tuple[tuple[str, str, tuple[str, ...]], ...]


class NamedValue(Strict, frozen=True):
    """A header and what it says."""

    name: str
    value: str


class MetadataValue(Strict, frozen=True):
    """A member of JSON in a header, and what it says."""

    header: str
    member: str
    value: str


class PromptExample(Strict, frozen=True):
    """A user message, and whether it asks for a summary."""

    text: str
    asks: bool = field(name="is")


class SummaryRequest(Strict, frozen=True):
    """A request in which an agent has its history summarised."""

    id: str
    formats: tuple[str, ...]
    path: str = ""
    item: str = ""
    metadata: MetadataValue | None = None
    header: NamedValue | None = None
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    examples: tuple[PromptExample, ...] = ()


class Compaction(Strict, frozen=True):
    """`compaction.yaml`."""

    requests: tuple[SummaryRequest, ...]
    summaries: tuple[str, ...]


class SignedValue(Strict, frozen=True):
    """A value that changes with every request, and what stays."""

    header: str
    value: Regex
    hosts: tuple[str, ...]


class RenewedValue(Strict, frozen=True):
    """A login whose tokens are replaced while a conversation goes on."""

    value: Regex
    account: Literal["jwt", "user", "none"]


class CredentialExample(Strict, frozen=True):
    """Two requests to one host, and whether they are of one scope."""

    first: dict[str, Any] = field(name="one")
    second: dict[str, Any] = field(name="other")
    verdict: Literal["same", "renewed", "other"] = field(name="is")
    host: str = ""


class Credentials(Strict, frozen=True):
    """`credentials.yaml`."""

    headers: tuple[str, ...]
    queries: tuple[str, ...]
    words: tuple[str, ...]
    harmless: tuple[str, ...] = field(name="not")
    cookies_not: tuple[str, ...]
    signed: tuple[SignedValue, ...]
    renewed: tuple[RenewedValue, ...]
    examples: tuple[CredentialExample, ...]


class LongPrice(Strict, frozen=True):
    """What a request costs whose prompt has more tokens than `above`."""

    above: Count
    input: Positive
    output: Positive


class Price(Strict, frozen=True):
    """What a model costs, in US dollars for a million tokens."""

    glob: str
    input: Positive
    output: Positive
    source: str
    long: LongPrice | None = None


class PriceSource(Strict, frozen=True):
    """Where prices were read, and when."""

    date: date
    list: str
    copy: str
    is_unchecked: bool = False


class Dollars(Strict, frozen=True):
    """`dollars.yaml`."""

    sources: dict[str, PriceSource]
    models: tuple[Price, ...]
    turns: Size
    share: Share
    examples: dict[str, float | None]


class ToolSetting(Strict, frozen=True):
    """Where an agent's configuration takes out tools."""

    agent: str
    server: Regex
    file: str
    one: str
    all: str
    date: date
    source: str


class UnusedTools(Strict, frozen=True):
    """`unused_tools.yaml`."""

    agents: tuple[ToolSetting, ...]
    examples: tuple[tuple[str, str, str | None], ...]


class InlineTools(Strict, frozen=True):
    """`inline_tools.yaml`."""

    formats: tuple[str, ...]
    hosts: tuple[str, ...]
    betas: tuple[str, ...]
    models: tuple[str, ...]
    date: date
    source: str
    examples: tuple[tuple[str, str, str, bool], ...]


class FileExamples(Strict, frozen=True):
    """Calls, and the files that they read or edit."""

    reads: tuple[dict[str, Any], ...]
    edits: tuple[dict[str, Any], ...]
    moves: tuple[dict[str, Any], ...]


class Files(Strict, frozen=True):
    """`files.yaml`."""

    patches: tuple[str, ...]
    path_words: tuple[str, ...]
    built_in: dict[str, str]
    moving_words: tuple[str, ...]
    moving_tools: tuple[str, ...]
    folders: tuple[str, ...]
    stated: Regex
    elsewhere: tuple[str, ...]
    examples: FileExamples


class Unseen(Strict, frozen=True):
    """What of a history says nothing."""

    types: tuple[str, ...]
    roles: tuple[str, ...]


class History(Strict, frozen=True):
    """`history.yaml`."""

    unseen: Unseen
    ignored: tuple[str, ...]
    texts: tuple[str, ...]
    transparent: tuple[str, ...]
    calls: tuple[str, ...]
    arguments: tuple[str, ...]
    same: tuple[tuple[Any, Any], ...]
    other: tuple[tuple[Any, Any], ...]


class AskedCache(Strict, frozen=True):
    """A cache that lives for another time where a request asks for it."""

    marker: str
    life: Size
    cold: Size
    write: Positive | None = None


class CachePrice(Strict, frozen=True):
    """What a prompt cache costs in parts of the input price, and how long it lives (seconds)."""

    read: Positive
    write: Positive
    life: Size
    cold: Size
    minimum: Size
    step: Size
    whose: str = "*"
    asked: AskedCache | None = None


class ModelPrice(Strict, frozen=True):
    """Where a model's cache differs from its format's."""

    glob: str
    read: Positive
    write: Positive | None = None
    minimum: Size | None = None
    step: Size | None = None


class Turns(Strict, frozen=True):
    """How many turns are expected to follow."""

    part: Positive
    most: Size


class CachePriceExample(Strict, frozen=True):
    """A model, and what its cache costs."""

    format: str
    model: str
    body: str
    read: Positive
    write: Positive
    cold: Size
    minimum: Size | None = None


class Prices(Strict, frozen=True):
    """`prices.yaml`."""

    unknown: Size
    formats: dict[str, CachePrice]
    models: tuple[ModelPrice, ...]
    turns: Turns
    margin: Positive
    examples: tuple[CachePriceExample, ...]


class RefusalExample(Strict, frozen=True):
    """A response, and what must be read from it."""

    status: Size
    body: str
    kind: str = ""
    have: Size | None = None
    limit: Size | None = None
    over: Size | None = None
    tokens: Size = 0
    host: str = ""


class Denial(Strict, frozen=True):
    """A response that is no refusal of a size."""

    id: str
    message: Regex
    examples: tuple[RefusalExample, ...] = ()


class Refusal(Strict, frozen=True):
    """A refusal of a request that is too large."""

    id: str
    kind: Literal["input", "reserve", "bytes", "field", "window", "binding", "declaration"]
    message: Regex | None = None
    outer: Regex | None = None
    names: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    raw: str = ""
    members: dict[str, str] = field(default_factory=dict)
    assumed_limit: Count | None = None
    most: Count | None = None
    least_tokens: Size = 0
    empty: bool = False
    leave: bool = False
    examples: tuple[RefusalExample, ...] = ()


class Refusals(Strict, frozen=True):
    """`refusals.yaml`."""

    prefixes: tuple[Regex, ...]
    deny: tuple[Denial, ...]
    refusals: tuple[Refusal, ...]
    nothing: tuple[RefusalExample, ...]


class SessionExample(Strict, frozen=True):
    """A request, and the session that it names."""

    headers: dict[str, str]
    body: dict[str, Any]
    session: str | None = field(name="is")


class Sessions(Strict, frozen=True):
    """`sessions.yaml`."""

    headers: tuple[str, ...]
    body: tuple[str, ...]
    volatile: tuple[Regex, ...]
    folders: tuple[Regex, ...]
    examples: tuple[SessionExample, ...]
    volatile_examples: tuple[tuple[str, str], ...]
    folder_examples: tuple[tuple[str, str], ...]


class ThinkingExample(Strict, frozen=True):
    """A model, and whether its reasoning is bound to the prefix."""

    format: str
    model: str
    bound: bool


class Thinking(Strict, frozen=True):
    """`thinking.yaml`."""

    formats: tuple[str, ...]
    unbound: tuple[str, ...]
    examples: tuple[ThinkingExample, ...]


class Window(Strict, frozen=True):
    """How many tokens a model takes, or is believed to take."""

    glob: str
    window: Count | None = None
    believed: Count | None = None
    header: str = ""
    contains: str = ""
    larger: Count | None = None


class WindowExample(Strict, frozen=True):
    """A model, and its window."""

    window: Size
    believed: Size
    model: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Windows(Strict, frozen=True):
    """`windows.yaml`."""

    most: Positive
    assumed: Count
    models: tuple[Window, ...]
    examples: tuple[WindowExample, ...]


class CallStrings(Strict, frozen=True):
    """Calls of tools in a body of an unknown kind."""

    arguments: Regex
    members: Regex
    types: Regex


class ResultStrings(Strict, frozen=True):
    """What else is a result of a tool in a body of an unknown kind."""

    marks: Regex
    types: Regex


class StringRules(Strict, frozen=True):
    """Which strings of a body that is no LLM call's are searched."""

    skipped: Regex
    calls: CallStrings
    words: Regex
    opaque: Regex
    texts: Regex
    wrappers: Regex
    results: ResultStrings
    logins: tuple[str, ...]


class ResultBlocks(Strict, frozen=True):
    """How an object is known for a result of a tool."""

    types: tuple[str, ...]
    roles: tuple[str, ...]
    members: tuple[str, ...]


class BinaryStrings(Strict, frozen=True):
    """Strings in base64 that are no text."""

    least: Size
    magic: tuple[str, ...]


class ResultExample(Strict, frozen=True):
    """An object of a request, and what is read of it."""

    block: str
    searched: tuple[str | int, ...]


class Results(Strict, frozen=True):
    """`results.yaml`: where results of tools stand in a request."""

    blocks: ResultBlocks
    types: tuple[str, ...]
    words: tuple[str, ...]
    addresses: tuple[str, ...]
    harmless: tuple[str, ...]
    untouched: tuple[str, ...]
    free: tuple[str, ...]
    callers: tuple[str, ...]
    ids: tuple[str, ...]
    binary: BinaryStrings
    unknown: StringRules
    examples: tuple[ResultExample, ...]


class UserResultRule(Strict, frozen=True):
    """A way in which agents write results into the user's text."""

    name: str
    needs: str
    opens: Regex
    closes: Regex = ""
    only_next: bool = False
    after: str = ""
    calls: Regex = ""


class UserResultExample(Strict, frozen=True):
    """Texts of the model and of the user behind it, and the results in them."""

    said: str
    text: str
    results: tuple[str, ...]
    certain: bool = False
    tool: str = ""
    command: str = ""


class TranscriptExample(Strict, frozen=True):
    """A text, and whether it carries a transcript."""

    text: str
    fits: bool


class TranscriptRule(Strict, frozen=True):
    """How a transcript shows in a text."""

    name: str
    needs: str
    shape: Regex
    examples: tuple[TranscriptExample, ...]


class UserResults(Strict, frozen=True):
    """`user_results.yaml`: results in the user's text."""

    results: tuple[UserResultRule, ...]
    commands: Regex
    transcripts: tuple[TranscriptRule, ...]
    examples: tuple[UserResultExample, ...]


class PrintedExample(Strict, frozen=True):
    """A command, what it printed, and what of that is secret."""

    command: str
    output: str
    secrets: tuple[str, ...]


class PrintedSecrets(Strict, frozen=True):
    """`printed_secrets.yaml`: commands that print a secret and little else."""

    commands: tuple[str, ...]
    unless: tuple[str, ...]
    readers: tuple[str, ...]
    paths: tuple[Regex, ...]
    path_endings: tuple[str, ...]
    public_paths: tuple[str, ...]
    naming: tuple[str, ...]
    masks: tuple[str, ...]
    never: AnyRegex
    examples: tuple[PrintedExample, ...]


class Hints(Strict, frozen=True):
    """`secrets/words/hints.yaml`: paths and commands that tell what is in their output."""

    loud: tuple[Regex, ...]
    quiet: tuple[Regex, ...]


class Names(Strict, frozen=True):
    """`secrets/words/names.yaml`: names whose values are secret. Words, parted by blanks."""

    heads: dict[str, str]
    passwords: str
    weak_heads: str
    password_hashes: str
    hashed_passwords: str
    qualifiers: str
    not_before: dict[str, str]
    key_kinds: str
    endings: str
    ending_exceptions: str
    short_endings: str
    short_ending_owners: str
    salted: str = ""
    articles: str = ""
    keys_with_ids: str = ""
    public_ends: str = ""


class Prefixes(Strict, frozen=True):
    """`secrets/words/prefixes.yaml`: first parts of random words."""

    ids: str
    telling: str


class Records(Strict, frozen=True):
    """`secrets/words/records.yaml`: keys of the members of records. Words, parted by blanks."""

    names: str
    whole_names: str
    values: str
    whole_values: str
    declarations: str
    fallbacks: str
    fallback_operators: str
    marks: str


class Values(Strict, frozen=True):
    """`secrets/words/values.yaml`: what values say."""

    stop: str
    placeholder_parts: str
    word_endings: str
    program_words: str
    stems: str
    verdicts: str
    validation_rules: str
    field_words: str
    password_bases: str
    asking_words: str
    joining_words: str
    type_words: str
    behind_bars: str
    common_passwords: str


class OtherExample(Strict, frozen=True):
    """A request that is no LLM call; `{secret}` stands for one."""

    host: str
    path: str
    body: str
    method: str = "POST"


class OtherRule(Strict, frozen=True):
    """A kind of request that is no LLM call."""

    does: Literal["pass", "search"]
    path: Regex
    files: bool = False
    examples: tuple[OtherExample, ...] = ()


class SocketExample(Strict, frozen=True):
    """A WebSocket, and a frame of it."""

    host: str
    path: str
    frame: str


class SocketRule(Strict, frozen=True):
    """A kind of WebSocket whose frames are searched."""

    path: Regex
    error: str
    examples: tuple[SocketExample, ...] = ()


class Deviation(Strict, frozen=True):
    """Where a compatible API differs from the one it follows, with one response of it."""

    provider: str
    what: str
    response: str
    facts: dict[str, Any] = field(name="is")


class OwnProviders(Providers, frozen=True):
    """`providers.yaml`, with the parts that users can't add to."""

    others: dict[str, OtherRule] = field(default_factory=dict)
    sockets: dict[str, SocketRule] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()


class Summariser(Strict, frozen=True):
    """A provider that can be asked for a summary."""

    contract: str
    endpoint: str
    model: str
    logins: str = ""
    """Clients whose logins this provider refuses, where they have others than keys."""


class ReferenceMarker(Strict, frozen=True):
    """A reference in an answer that means nothing."""

    start: Regex
    whole: Regex


class StrategyExamples(Strict, frozen=True):
    """Texts, and what is left of them, or whether they are taken."""

    injected: tuple[tuple[str, str], ...]
    markers: tuple[tuple[str, str, bool], ...]


class Strategies(Strict, frozen=True):
    """`strategies.yaml`."""

    providers: dict[str, Summariser]
    other: str
    reserve: dict[str, Size]
    instruction: str
    injected: tuple[str, ...]
    markers: tuple[ReferenceMarker, ...]
    examples: StrategyExamples


SCHEMAS: dict[str, type[Strict]] = {
    "advisories.yaml": Advisories,
    "providers.yaml": OwnProviders,
    "strategies.yaml": Strategies,
    "compaction.yaml": Compaction,
    "credentials.yaml": Credentials,
    "dollars.yaml": Dollars,
    "files.yaml": Files,
    "history.yaml": History,
    "inline_tools.yaml": InlineTools,
    "prices.yaml": Prices,
    "refusals.yaml": Refusals,
    "sessions.yaml": Sessions,
    "thinking.yaml": Thinking,
    "unused_tools.yaml": UnusedTools,
    "windows.yaml": Windows,
    "printed_secrets.yaml": PrintedSecrets,
    "results.yaml": Results,
    "user_results.yaml": UserResults,
    "secrets/words/hints.yaml": Hints,
    "secrets/words/names.yaml": Names,
    "secrets/words/prefixes.yaml": Prefixes,
    "secrets/words/records.yaml": Records,
    "secrets/words/values.yaml": Values,
}


def schema_of(name: str) -> type[Strict]:
    """The type of any file below `rules/`."""
    return SCHEMAS.get(name) or rule_schemas.schema_of(name)
