"use strict";
// What others wrote (names of tools, texts of results) goes into the page as text only, never as markup.
(() => {
  const main = document.getElementById("main");
  const search = document.getElementById("search");
  const live = document.getElementById("live");
  const SVG = "http://www.w3.org/2000/svg";
  const count = new Intl.NumberFormat("en");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

  // Elements

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // Words

  const number = (value) => count.format(Math.round(value || 0));
  const tokens = (value) => (Math.abs(value || 0) < 10000 ? number(value) : short.format(value));
  const part = (value) => (value === null || value === undefined ? "unknown" : `${(value * 100).toFixed(1)} %`);
  const dollars = (value) => {
    if (!value) return "$0";
    const shown = Math.abs(value || 0).toFixed(Math.abs(value) < 1 ? 3 : 2);
    return `${value < 0 && Number(shown) ? "−" : ""}$${shown}`;
  };
  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
  const soon = (seconds) => (Date.now() - seconds * 1000 < 43200000 ? clock(seconds) : new Date(seconds * 1000).toLocaleDateString());
  const when = (seconds) => new Date(seconds * 1000).toLocaleString();
  const sum = (record) => Object.values(record || {}).reduce((all, one) => all + one, 0);
  // Unknown is not nothing.
  const money = (amounts) => (amounts.dollars || amounts.dollars_saved || !amounts.unpriced ? dollars(amounts.dollars_net) : "unknown");
  // What a terminal would obey is shown as a sign.
  const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)));
  const list = (record, words) =>
    Object.entries(record || {}).sort((a, b) => b[1] - a[1]).map(([name, value]) => `${(words && words[name]) || name} ${number(value)}`).join(", ");
  const less = (before, after) => (before ? `${Math.round((100 * (before - after)) / before)} %` : "");
  const noun = (value, one, many) => `${number(value)} ${value === 1 ? one : many || `${one}s`}`;

  async function get(path) {
    const response = await fetch(path, { headers: { accept: "application/json" } });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.json();
  }

  // Parts of views

  function card(title, figure, under, kind) {
    const lines = [under].flat().filter(Boolean).map((line) => el("p", {}, line));
    return el("li", { class: "card" }, el("p", { class: "of" }, title), el("p", { class: `figure ${kind || ""}` }, figure), ...lines);
  }

  // Columns: [title, what stands there, is it words]. A row's first cell leads somewhere if it has a link.
  function table(caption, columns, rows, link) {
    // Each row of such a table becomes a block if the table is wider than the screen: see `fit`.
    const isWide = columns.length > 3;
    const role = (name) => (isWide ? name : null);
    const head = columns.map(([title, , words]) => el("th", { scope: "col", role: role("columnheader"), class: words ? "words" : null }, title));
    const body = rows.map((row) => {
      const cells = columns.map(([title, cell, words], index) => {
        const value = cell(row);
        const inner = index === 0 && link && link(row) ? el("a", { href: link(row), "data-row": "" }, value) : value;
        return el("td", { class: words ? `words ${words}` : null, role: role("cell"), "data-title": title }, inner);
      });
      return el("tr", { role: role("row") }, ...cells);
    });
    const empty = rows.length ? "" : el("tr", { role: role("row") }, el("td", { class: "words", role: role("cell"), colspan: columns.length }, "Nothing yet."));
    const grid = el("table", { class: isWide ? "wide" : null, role: role("table") }, el("caption", {}, caption),
      el("thead", { role: role("rowgroup") }, el("tr", { role: role("row") }, ...head)), el("tbody", { role: role("rowgroup") }, ...body, empty));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, grid);
  }

  // Three lines with what they stand for. What is drawn begins at `left`: the large letters of a narrow screen fit before it.
  const left = 100;
  function scaleLines(width, zero, most, height, words) {
    return [0, 0.5, 1].map((share) => {
      const y = zero - share * height;
      return svg("g", {}, svg("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }),
        svg("text", { x: left - 6, y: y + 4, class: "scale" }, words(most * share)));
    });
  }

  function overTime(timeline) {
    const points = timeline.points;
    if (!points.length) return "";
    const width = 900, height = 190, room = height - 50, zero = height - 24;
    const first = points[0][0], count = Math.max(20, (points[points.length - 1][0] - first) / timeline.step + 1);
    const step = (width - left) / count, most = Math.max(1, ...points.map(([, sent, saved]) => sent + Math.max(saved, 0)));
    const drawn = points.map(([time, sent, saved], index) => {
      const x = left + ((time - first) / timeline.step) * step, part = (value) => (Math.max(value, 0) / most) * room;
      const words = `${clock(time)}: ${tokens(sent)} tokens of results sent, ${tokens(saved)} saved`;
      const text = index % Math.ceil(points.length / 8) === 0 && (index === 0 || step * (index + 1) > 60) ? svg("text", { x, y: height - 6 }, clock(time)) : "";
      return svg("g", {}, svg("title", {}, words),
        svg("rect", { x, width: Math.max(step * 0.9, 1), y: zero - part(sent), height: part(sent), class: "read" }),
        svg("rect", { x, width: Math.max(step * 0.9, 1), y: zero - part(sent) - part(saved), height: part(saved), class: "cached" }), text);
    });
    const label = `Tokens of tool results in all requests, each bar ${timeline.step < 3600 ? noun(timeline.step / 60, "minute") : noun(timeline.step / 3600, "hour")}`;
    return el("figure", {}, el("figcaption", {}, label),
      svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...scaleLines(width, zero, most, room, tokens), ...drawn),
      el("ul", { class: "key" }, square("read", "sent"), square("cached", "saved")));
  }
  const square = (kind, words) => el("li", {}, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, class: kind })), ` ${words}`);

  function bars(label, values, name) {
    const width = 900, height = 164, step = Math.min((width - left) / Math.max(values.length, 1), 80);
    const most = Math.max(1, ...values.map((each) => Math.abs(each.value)));
    const low = Math.max(0, ...values.map((each) => -each.value)) / most;
    const room = height - 54, zero = 24 + room * (1 - low / (1 + low));
    const scale = (room / (1 + low)) / most;
    const drawn = values.map((each, index) => {
      const tall = Math.abs(each.value) * scale;
      const bar = svg("rect", { x: left + index * step + step * 0.15, y: each.value < 0 ? zero : zero - tall,
        width: Math.min(step * 0.7, 60), height: Math.max(tall, 0.5), class: each.value < 0 ? "bar under" : "bar" });
      bar.append(svg("title", {}, `${each.name}: ${name(each.value)}`));
      // Counted from the last one, so many are named that they have room on a narrow screen too.
      const isNamed = (values.length - 1 - index) % Math.ceil(values.length / 10) === 0;
      const text = isNamed ? svg("text", { x: left + index * step + step * 0.15, y: height - 6 }, each.name.slice(5)) : "";
      return [bar, text];
    });
    const axis = scaleLines(width, zero, most, room / (1 + low), name);
    return el("figure", {}, el("figcaption", {}, label),
      svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...axis, ...drawn.flat()));
  }

  function prompts(turns) {
    const shown = turns.slice(-120).filter((turn) => turn.amounts.responses);
    if (!shown.length) return "";
    const width = 900, height = 160, room = height - 34, zero = height - 10, step = (width - left) / shown.length;
    const all = (turn) => (turn.amounts.cached || 0) + (turn.amounts.written || 0) + (turn.amounts.uncached || 0);
    const most = Math.max(1, ...shown.map(all));
    const drawn = shown.map((turn, index) => {
      const cached = ((turn.amounts.cached || 0) / most) * room;
      const read = (all(turn) / most) * room - cached;
      const place = { x: left + index * step + step * 0.1, width: Math.min(step * 0.8, 40) };
      const title = svg("title", {}, `${clock(turn.time)}: ${tokens(all(turn))} input tokens, ${tokens(turn.amounts.cached)} from the cache`);
      return svg("g", {}, title,
        svg("rect", { ...place, y: zero - cached, height: cached, class: "cached" }),
        svg("rect", { ...place, y: zero - cached - read, height: Math.max(read, 0.5), class: turn.miss ? "missed" : "read" }));
    });
    const label = "Input tokens of each turn: from the cache, read anew, and missed, as the turns below in words.";
    return el("figure", {}, el("figcaption", {}, "Input tokens, a bar for each turn"),
      svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...scaleLines(width, zero, most, room, tokens), ...drawn),
      el("ul", { class: "key" }, square("cached", "from the provider's cache"), square("read", "read anew"), square("missed", "read anew, though it should have been cached")));
  }

  function saved(amounts, prices) {
    const shares = amounts.shares, known = shares.input !== null && shares.input !== undefined;
    return [
      card("Tokens saved, net", tokens(amounts.net), [
        amounts.sent_before ? `${part(shares.results)} of ${tokens(amounts.sent_before)} tokens of tool results` : "no tool results yet",
        known ? `${part(shares.input)} of ${tokens(amounts.input + amounts.net)} input tokens` : "part of input tokens unknown: no figures yet",
        `${tokens(amounts.saved)} less ${tokens(amounts.overhead)} overhead`], amounts.net < 0 ? "bad" : "good"),
      card("Money saved, net", money(amounts), [
        amounts.dollars ? `${part(shares.bill)} of a bill of ${dollars(amounts.dollars + amounts.dollars_net)} without Penumbra` : "part of the bill unknown",
        amounts.unpriced ? `without ${noun(amounts.unpriced, "request")} to models whose price is not known` : "",
        prices || "list prices"], amounts.dollars_net < 0 ? "bad" : "good"),
    ];
  }

  function cards(now) {
    const amounts = now.amounts;
    const misses = sum(amounts.misses), errors = sum(amounts.errors), secrets = sum(amounts.secrets);
    const again = (amounts.asked || 0) + (amounts.read_again || 0);
    const high = now.seconds.quantiles["0.95"];
    return el("ul", { class: "cards" },
      ...saved(amounts, now.prices),
      card("Cache misses", number(misses), misses ? [list(amounts.misses), `${tokens(amounts.missed)} tokens read anew, ${dollars(amounts.dollars_missed)}`] : `in ${noun(amounts.responses || 0, "response")} with figures`, misses ? "warn" : ""),
      card("Cache expired", number(sum(amounts.pauses)), sum(amounts.pauses) ? [list(amounts.pauses), `${tokens(amounts.expired)} tokens read anew, ${dollars(amounts.dollars_expired)}${amounts.dollars ? `, ${part(amounts.dollars_expired / amounts.dollars)} of the bill` : ""}`, sum(amounts.cold_turns) ? `earlier results shortened in ${noun(sum(amounts.cold_turns), "request")}, whose cache was: ${list(amounts.cold_turns)}` : ""] : "no request came after a pause longer than the cache's life", ""),
      card("Prefix broken by Penumbra", amounts.compared ? number(amounts.broken || 0) : "–", amounts.compared ? `of ${noun(amounts.compared, "prompt")} that the provider compared` : "no provider has compared prompts yet", amounts.broken ? "bad" : ""),
      card("Asked for again", number(again), [`${number(amounts.asked)} originals, ${number(amounts.read_again)} results fetched again`, `of ${noun(amounts.new_results || 0, "result")}`]),
      card("Secrets taken out", number(secrets), list(amounts.secrets, now.kinds) || "none found", secrets ? "warn" : ""),
      card("Errors and refusals", number(errors + (amounts.refused || 0)), [amounts.refused ? `${number(amounts.refused)} not sent` : "", list(amounts.errors) || "none"], errors + (amounts.refused || 0) ? "bad" : ""),
      card("Seconds added", (amounts.seconds || 0).toFixed(1), amounts.requests ? [`${((1000 * amounts.seconds) / amounts.requests).toFixed(0)} ms a request`, high ? `95 % below ${high} s` : ""] : "no requests yet"));
  }

  function where(amounts) {
    const rows = [
      ["Tool results as they came", amounts.sent_before], ["Tool results as they were sent", amounts.sent_after],
      ["Saved", amounts.saved], ["– the injected tool's declaration", amounts.declared], ["– hidden exchanges, put back", amounts.put_back],
      ["– hidden calls for originals", amounts.hidden_tokens], ["– results fetched again", amounts.read_again_tokens], ["Saved, net", amounts.net],
    ];
    return table("Tokens, in all requests that carried them (estimated)", [["what", (row) => row[0], "wrap"], ["tokens", (row) => number(row[1])]], rows);
  }

  const sessionColumns = [
    ["session", (row) => row.id, "plain"], ["agent", (row) => row.agent, "broken"], ["project", (row) => row.project, "broken"], ["model", (row) => row.model, "broken"], ["last", (row) => soon(row.last), "plain"],
    ["turns", (row) => number(row.turns)],
    ["saved, net", (row) => tokens(row.amounts.net)], ["of input", (row) => part(row.amounts.shares.input)], ["money, net", (row) => money(row.amounts)],
    ["misses", (row) => number(sum(row.amounts.misses))], ["asked", (row) => number(row.amounts.asked)], ["secrets", (row) => number(sum(row.amounts.secrets))],
  ];
  const sessionTable = (caption, rows) => table(caption, sessionColumns, rows, sessionLink);
  const sessionLink = (row) => `#session/${row.id}`;

  function groupTable(caption, what, rows) {
    return table(caption, [
      [what, (row) => row.name, "wrap"], ["results", (row) => number(row.results)], ["changed", (row) => number(row.changed)],
      ["tokens before", (row) => number(row.before)], ["after", (row) => number(row.after)], ["less", (row) => less(row.before, row.after)],
      ["asked back", (row) => number(row.asked)], ["not found", (row) => number(row.missing)], ["fetched again", (row) => number(row.read_again)],
      ["went as they came", (row) => list(row.kept), "wrap"],
    ], rows);
  }

  // Views

  const views = {
    async now() {
      const [now, sessions] = await Promise.all([get("data/now"), get("data/sessions")]);
      const advice = now.advice.map((each) => el("li", { class: each.level },
        el("p", { class: "title" }, each.title), el("p", { class: "soft" }, each.text)));
      return [
        el("h1", {}, "Sent and saved"), overTime(now.timeline),
        el("h2", {}, "What to act on now"),
        advice.length ? el("ul", { class: "advice" }, ...advice) : el("p", {}, now.amounts.requests ? "Nothing." : "No requests yet."),
        el("h2", {}, `Since ${when(now.started)}`),
        cards(now),
        el("h2", {}, "Where the tokens went"), where(now.amounts),
        el("h2", {}, "Latest sessions"), sessionTable("The ten latest", sessions.slice(0, 10)),
      ];
    },
    async sessions() {
      return [el("h1", {}, "Sessions"), sessionTable("Since the start, the latest first", await get("data/sessions"))];
    },
    async session(name) {
      const session = await get(`data/session/${encodeURIComponent(name)}`);
      const turns = session.turns.slice().reverse();
      return [
        el("h1", {}, `Session ${session.id}`),
        el("p", { class: "soft" }, `${session.agent}, project ${session.project}, ${session.model}, ${when(session.first)} to ${when(session.last)}, ${noun(session.turns.length, "turn")}`),
        el("ul", { class: "cards" }, ...saved(session.amounts),
          card("Cache misses", number(sum(session.amounts.misses)), list(session.amounts.misses)),
          card("Asked for again", number((session.amounts.asked || 0) + (session.amounts.read_again || 0)), `of ${noun(session.amounts.new_results || 0, "result")}`)),
        el("h2", {}, "Input tokens, turn by turn"), prompts(session.turns),
        el("h2", {}, "Turns, the latest first"), ...turns.map((each, index) => turn(each, index, turns, session.kinds)),
      ];
    },
    async result(name) {
      const result = await get(`data/result/${encodeURIComponent(name)}`);
      const rows = result.rows;
      return [
        el("h1", {}, `Result ${result.number}: ${result.tool}`),
        el("p", {}, `${result.kept ? `Not shortened: ${result.kept}.` : `${result.how.charAt(0).toUpperCase()}${result.how.slice(1)}${result.stages.length ? `, by ${result.stages.join(", ")}` : ""}.`} ` +
          `${number(result.bytes[0])} → ${number(result.bytes[1])} bytes, ${number(result.tokens[0])} → ${number(result.tokens[1])} tokens (estimated).`),
        el("p", { class: "soft" }, [result.family ? `Family ${result.family}.` : "", result.loss === 2 ? " Something was left out; the model can ask for it." : "",
          sum(result.secrets) ? ` Secrets: ${list(result.secrets, result.kinds)}.` : "", result.asked ? ` Asked back ${noun(result.asked, "time")}.` : "",
          result.read_again ? " Fetched again, since something had been left out of it." : ""].join("")),
        rows && sum(result.secrets) && rows.every((row) => row[0] === "gap") ? el("p", {}, "Nothing but secrets was replaced, and the original is shown without them: both texts are the same here.")
          : rows ? difference(rows, result.is_cut) : el("p", {}, "Its text is not kept. With penumbra_page_originals=on, the latest results are shown here before and after, without secrets."),
      ];
    },
    async by() {
      const [now, unused] = await Promise.all([get("data/now"), get("data/unused")]);
      const sums = (caption, what, rows) => table(caption, [
        [what, (row) => row.name, "wrap"], ["requests", (row) => number(row.amounts.requests)], ["saved, net", (row) => tokens(row.amounts.net)],
        ["of results", (row) => part(row.amounts.shares.results)], ["of input", (row) => part(row.amounts.shares.input)], ["of the bill", (row) => part(row.amounts.shares.bill)],
        ["money, net", (row) => money(row.amounts)], ["misses", (row) => number(sum(row.amounts.misses))], ["asked", (row) => number(row.amounts.asked)],
      ], rows);
      return [
        el("h1", {}, "Tools, agents and projects"), el("h2", {}, "Agents"), sums("Agents, as their requests name them", "agent", now.agents),
        el("h2", {}, "Projects"), sums("Projects, by the folder that agents name", "project", now.projects),
        el("h2", {}, "Tools"), groupTable("New results, each counted once; tokens are estimated", "tool", now.tools),
        el("h2", {}, "Declared and never called"),
        el("p", { class: "soft" }, "Tools of MCP servers that at least ten requests of a project declared in the last 30 days and that no model called there. Penumbra does not change declarations; a setting of your agent removes them. Tokens are estimated, money is at the price of cached input."),
        table("The most tokens first", [
          ["tools", (row) => (row.names.length > 1 ? `${row.server}: ${noun(row.names.length, "tool")}` : row.names[0]), "wrap"], ["project", (row) => row.project, "broken"], ["agent", (row) => row.agent, "broken"],
          ["requests", (row) => number(row.requests)], ["tokens", (row) => tokens(row.tokens)], ["money", (row) => (row.dollars ? dollars(row.dollars) : "–")],
          ["setting that removes them", (row) => `${row.file}: ${row.setting}`, "wrap"],
        ], unused.slice(0, 100)),
        el("h2", {}, "Families"), groupTable("Kinds of results", "family", now.families),
        el("h2", {}, "Left alone"), table("Requests of LLMs that went through untouched", [["reason", (row) => row[0], "wrap"], ["requests", (row) => number(row[1])]], Object.entries(now.untouched)),
      ];
    },
    async days() {
      const days = await get("data/past");
      const rows = days.slice().reverse();
      const conversations = rows.flatMap((day) => day.conversations.map((each) => ({ day: day.day, ...each })))
        .sort((a, b) => b.amounts.net - a.amounts.net);
      const shares = [["of results", (row) => part(row.amounts.shares.results)], ["of the bill", (row) => part(row.amounts.shares.bill)]];
      const sums = [
        ["requests", (row) => number(row.amounts.requests)], ["saved, net", (row) => tokens(row.amounts.net)], ["of input", (row) => part(row.amounts.shares.input)],
        ["money, net", (row) => money(row.amounts)], ["misses", (row) => number(sum(row.amounts.misses))], ["asked", (row) => number(row.amounts.asked)],
        ["secrets", (row) => number(sum(row.amounts.secrets))], ["errors", (row) => number(sum(row.amounts.errors) + (row.amounts.refused || 0))],
      ];
      return [
        el("h1", {}, "Days"), el("p", { class: "soft" }, "Of all proxies whose database is the same file of this machine, over restarts. Sizes and counts only."),
        days.length ? bars("Tokens saved, net, on each day; the table below says the same", days.map((day) => ({ name: day.day, value: day.amounts.net })), tokens) : "",
        table("The last 30 days that had requests", [["day", (row) => row.day, "plain"], ...sums, ...shares], rows),
        el("h2", {}, "Conversations"), table("Those of these days; the largest saving first", [["conversation", (row) => row.id, "plain"], ["day", (row) => row.day, "plain"], ["agent", (row) => row.agent, "broken"], ["project", (row) => row.project || "", "broken"], ...sums], conversations.slice(0, 300)),
      ];
    },
    async export() {
      const links = [["data/everything", "everything, as JSON"], ["data/table/days", "days, as CSV"], ["data/table/conversations", "conversations of these days, as CSV"],
        ["data/table/turns", "turns since the start, as CSV"], ["data/table/results", "results since the start, as CSV"], ["metrics", "metrics, as Prometheus reads them"]];
      return [el("h1", {}, "Export"), el("p", { class: "soft" }, "Names of tools, sizes and counts; no content."),
        el("ul", {}, ...links.map(([href, words]) => el("li", {}, el("a", { href, "data-row": "", download: href === "metrics" ? null : "" }, words))))];
    },
  };

  function turn(each, index, turns, kinds) {
    const place = `turn ${number(turns.length - index)}`;
    const amounts = each.amounts;
    const input = (amounts.cached || 0) + (amounts.written || 0) + (amounts.uncached || 0);
    const facts = [
      amounts.responses ? `${number(input)} input tokens, ${number(amounts.cached)} from the cache, ${number(amounts.output)} out` : "no figures",
      amounts.dollars ? dollars(amounts.dollars) : "", `${noun(each.carried, "result")} carried`, `${number((amounts.sent_before || 0) - (amounts.sent_after || 0))} tokens smaller`,
      `${number(1000 * (amounts.seconds || 0))} ms added`, amounts.asked ? `${noun(amounts.asked, "original")} asked for, ${noun(amounts.hidden_calls || 0, "hidden call")}` : "",
      each.note,
    ];
    const miss = each.miss ? el("p", { class: "miss" }, `Cache missed: ${each.miss.cause}. ${number(each.miss.tokens)} tokens read anew; ${each.miss.detail}.`) : "";
    const results = each.results.length ? table(`New results of ${place}`, [
      ["result", (row) => row.tool, "plain"], ["family", (row) => row.family, "plain"], ["tokens", (row) => `${number(row.tokens[0])} → ${number(row.tokens[1])}`],
      ["less", (row) => less(row.tokens[0], row.tokens[1])],
      ["what was done, or why not", (row) => (row.kept ? `as it came: ${row.kept}` : [row.how, ...row.stages].join(", ")) + (row.read_again ? ", fetched again" : ""), "wrap"],
      ["asked", (row) => number(row.asked)], ["secrets", (row) => list(row.secrets, kinds), "wrap"],
    ], each.results, (row) => `#result/${row.number}`) : "";
    return el("section", { class: "turn", "aria-label": place },
      el("h3", {}, `${place} · ${clock(each.time)} · ${each.model} · status ${each.status || "open"}`), el("p", {}, facts.filter(Boolean).join(" · ")), miss, results);
  }

  function difference(rows, isCut) {
    const body = rows.map((row) => {
      if (row[0] === "gap") return el("tr", { class: "gap" }, el("td", { colspan: 4 }, `${noun(row[1], "equal line")}`));
      const [kind, left, before, right, after] = row;
      return el("tr", { class: kind }, el("td", { class: "number" }, left === null ? "" : String(left)), el("td", { class: "old" }, before === null ? "" : visible(before)),
        el("td", { class: "number" }, right === null ? "" : String(right)), el("td", { class: "new" }, after === null ? "" : visible(after)));
    });
    const head = el("tr", {}, el("th", { class: "number", scope: "col" }, "line"), el("th", { class: "words", scope: "col" }, "original, without secrets"),
      el("th", { class: "number", scope: "col" }, "line"), el("th", { class: "words", scope: "col" }, "as it was sent"));
    const grid = el("table", { class: "diff" }, el("thead", {}, head), el("tbody", {}, ...body));
    return el("div", {}, isCut ? el("p", { class: "soft" }, "Only the first lines are compared.") : "",
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Original and sent text" }, grid));
  }

  // What is in sight

  const order = ["now", "sessions", "by", "days", "export"];
  const place = () => { const [view, name] = location.hash.slice(1).split("/"); return views[view] ? [view, name] : ["now"]; };
  let drawing = 0;

  async function draw(isNew) {
    const mine = ++drawing, [view, name] = place();
    let nodes;
    try {
      nodes = await views[view](name === undefined ? undefined : decodeURIComponent(name));
    } catch (error) {
      if (!isNew) return;
      nodes = [el("h1", {}, "Not here"), el("p", {}, `It is not there any more, or the proxy has ended (${error.message}).`)];
    }
    if (mine !== drawing) return;
    const focused = isNew ? null : document.activeElement && document.activeElement.getAttribute("href");
    const scrolls = isNew ? [] : [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    main.replaceChildren(...nodes.flat().filter((node) => node !== ""));
    fit();
    [...main.querySelectorAll(".scroll")].forEach((each, index) => { each.scrollLeft = scrolls[index] || 0; });
    filter();
    if (focused) { const again = [...main.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused); if (again) again.focus({ preventScroll: true }); }
    if (isNew) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
    const tab = view === "session" || view === "result" ? "sessions" : view;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === `#${tab}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    document.title = `${main.querySelector("h1").textContent} – Penumbra`;
    main.setAttribute("data-view", name === undefined ? view : `${view}/${name}`);
    main.setAttribute("data-drawn", String(mine));
  }

  // A table of many columns that does not fit shows each row as a block, each cell with its column's title.
  function fit() {
    for (const each of main.querySelectorAll("table.wide")) {
      each.classList.remove("blocks");
      each.classList.toggle("blocks", each.scrollWidth > each.parentElement.clientWidth);
    }
  }

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    for (const row of main.querySelectorAll("tbody tr, .advice li")) row.classList.toggle("hidden", wanted !== "" && !row.textContent.toLowerCase().includes(wanted));
    for (const each of main.querySelectorAll(".turn")) {
      const head = [...each.querySelectorAll("h3, p")].some((line) => line.textContent.toLowerCase().includes(wanted));
      if (head) for (const row of each.querySelectorAll("tr")) row.classList.remove("hidden");
      each.classList.toggle("hidden", wanted !== "" && !head && !each.querySelector("tbody tr:not(.hidden)"));
    }
  }

  async function state() {
    const now = await get("data/now");
    document.getElementById("state").textContent = 
        now.is_paused ? "paused" : now.is_observing ? `only observing, mode ${now.mode}` : `mode ${now.mode}`;
    const button = document.getElementById("pause");
    button.textContent = now.is_paused ? "Resume" : "Pause";
    button.setAttribute("data-on", now.is_paused ? "false" : "true");
  }

  function theme(name) {
    document.documentElement.setAttribute("data-theme", name);
    document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
  }
  function otherTheme() {
    const name = document.documentElement.getAttribute("data-theme") === "dark" ? "light" : "dark";
    theme(name);
    try { localStorage.setItem("theme", name); } catch { /* it holds for this time */ }
  }

  function move(by) {
    const rows = [...main.querySelectorAll("a[data-row]")].filter((row) => row.offsetParent !== null);
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))].focus();
  }

  const keys = {
    j: () => move(1), k: () => move(-1), u: () => history.back(), t: otherTheme,
    "/": () => search.focus(), "?": () => document.getElementById("help").showModal(),
    ...Object.fromEntries(order.map((view, index) => [String(index + 1), () => { location.hash = view; }])),
  };

  document.addEventListener("keydown", (event) => {
    if (event.target === search) { if (event.key === "Escape") { search.value = ""; filter(); search.blur(); } return; }
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  search.addEventListener("input", filter);
  addEventListener("resize", fit);
  document.getElementById("theme").addEventListener("click", otherTheme);
  document.getElementById("keys").addEventListener("click", keys["?"]);
  document.getElementById("pause").addEventListener("click", async (event) => {
    await fetch(`data/pause?on=${event.currentTarget.getAttribute("data-on")}`, { method: "POST" });
    state();
  });
  addEventListener("hashchange", () => { if (location.hash !== "#main") draw(true); });

  // The link's token has done its work: it is not to be seen, copied or sent on.
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* none */ }
  theme(chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));

  // A browser has few connections to a host for all its tabs: where there are many, the oldest ones ask now and then.
  let asking = 0;
  const look = () => { state(); draw(false); };
  const listen = () => {
    clearInterval(asking);
    asking = 0;
    const events = new EventSource("data/events");
    events.onopen = () => { live.textContent = "live"; look(); };
    events.onerror = () => {
      live.textContent = "not connected";
      // A browser tries again where the connection broke, and not where it was refused.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 10000);
    };
    events.onmessage = () => { live.textContent = `live, ${new Date().toLocaleTimeString()}`; look(); };
    events.addEventListener("replaced", () => { events.close(); live.textContent = "every 10 seconds"; asking = setInterval(look, 10000); });
  };
  document.addEventListener("visibilitychange", () => { if (asking && !document.hidden) listen(); });
  listen();
  draw(true);
})();
