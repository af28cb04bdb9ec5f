// The drawing: each component over time. Four lanes over one clock, the server's.

const names = 70, right = 14; // pixels beside the lanes
const lanes = { browser: { y: 8, h: 46 }, A: { y: 60, h: 26 }, B: { y: 92, h: 26 }, key: { y: 128, h: 26 } };
const height = 178;
const shortest = 2600; // milliseconds that the drawing shows at least
const longest = 9000; // and at most: older things leave on the left
const tail = 600; // left free after the newest
const dull = 1300, kept = 500; // a longer idle pause is drawn this long

// draw shows the notices of one order. now is the server's time while a payment is under way, and else null; a stopped clock has no line.
// draw returns the kinds of bars that had no room for their words, each with its words.
export function draw(into, notices, now, stopped) {
  wordless.clear();
  const svg = node("svg", { height });
  const wide = into.clientWidth, story = tell(notices, now);
  const time = scale(story, wide);
  svg.setAttribute("viewBox", `0 0 ${wide} ${height}`);
  svg.append(...frame(wide, time));
  const inside = node("g", { "clip-path": "url(#inside)" });
  svg.append(node("clipPath", { id: "inside" }, [node("rect", { x: names - 6, y: 0, width: wide - names + 6, height })]), inside);
  drawKey(inside, story, time);
  for (const pod of ["A", "B"]) drawPod(inside, story, pod, time);
  drawBrowser(inside, story, time);
  if (now !== null && !stopped && notices.length) {
    const x = time.x(now);
    inside.append(node("line", { class: "now", x1: x, x2: x, y1: 4, y2: 158 }));
  }
  into.replaceChildren(svg);
  return Object.entries(legend).filter(([kind]) => wordless.has(kind));
}

// tell makes spans of notices.
function tell(notices, now) {
  const story = { requests: [], runs: [], downs: [], coins: [], visits: [], key: [], end: 0, start: 0, points: [] };
  const open = (list, n) => list.findLast((span) => span.request === n.request && span.to === undefined);
  let lease = null, pods = {};
  for (const n of notices) {
    story.points.push(n.at);
    switch (n.what) {
      case "arrived":
        story.requests.push({ request: n.request, pod: n.pod, from: n.at });
        break;
      case "execute":
      case "no_key":
        story.runs.push({ request: n.request, pod: n.pod, from: n.at, attempt: n.attempt, keyless: n.what === "no_key" });
        if (n.what === "execute") story.key.push(lease = { kind: "flight", from: n.at, attempt: n.attempt, pod: n.pod });
        break;
      case "lease":
        if (lease?.kind === "flight" && lease.attempt === n.attempt) lease.until = n.until;
        story.until = n.until;
        break;
      case "completed":
        end(lease, n.at);
        story.key.push(lease = { kind: "saved", from: n.at });
        break;
      case "in_progress":
      case "key_reused":
      case "replay":
        story.visits.push({ at: n.at, pod: n.pod, replay: n.what === "replay" });
        note(open(story.requests, n), n.what);
        break;
      case "charged":
      case "recognised":
        story.coins.push({ at: n.at, pod: n.pod, known: n.what === "recognised" });
        break;
      case "killed":
        story.downs.push(pods[n.pod] = { pod: n.pod, from: n.at });
        for (const run of story.runs) if (run.pod === n.pod) end(run, n.at);
        if (lease?.kind === "flight" && lease.pod === n.pod) {
          end(lease, n.at);
          story.key.push(lease = { kind: "orphan", from: n.at, until: lease.until ?? story.until });
        }
        break;
      case "started":
        end(pods[n.pod], n.at);
        break;
      case "lease_expired":
        end(lease, n.at);
        break;
      case "responded":
      case "no_response": {
        end(open(story.runs, n), n.at);
        const request = open(story.requests, n);
        if (request) Object.assign(request, { to: n.at, status: n.what === "responded" ? n.status : 0 });
      }
    }
  }
  story.start = notices[0]?.at ?? 0;
  story.end = Math.max(story.start, now ?? 0, notices.at(-1)?.at ?? 0);
  return story;
}

function end(span, at) {
  if (span && span.to === undefined) span.to = at;
}

function note(request, result) {
  if (request) request.result = result;
}

// scale maps the server's milliseconds to pixels. Long pauses are folded.
function scale(story, wide) {
  const folds = [];
  for (let i = 1; i < story.points.length; i++) {
    const from = story.points[i - 1], to = story.points[i];
    const idle = !story.requests.some((r) => r.from < to && (r.to ?? Infinity) > from) && !story.key.some((k) => k.kind === "orphan" && k.from < to && (k.to ?? Infinity) > from);
    if (idle && to - from > dull) folds.push({ from, cut: to - from - kept });
  }
  const folded = (t) => folds.reduce((sum, f) => (t > f.from + kept / 2 ? sum - Math.min(f.cut, Math.max(0, t - f.from - kept / 2)) : sum), t - story.start);
  const last = folded(story.end) + (wide < 480 ? 2 : 1) * tail;
  const first = Math.max(0, last - longest), span = Math.max(shortest, last - first);
  const x = (t) => names + ((folded(t) - first) / span) * (wide - names - right);
  return { x, first, span, narrow: wide < 480, end: story.end, at: (ms) => names + ((ms - first) / span) * (wide - names - right), folds };
}

function frame(wide, time) {
  const parts = [];
  const step = time.span > 5000 ? 1000 : 500;
  for (let ms = Math.ceil(time.first / step) * step; ms <= time.first + time.span; ms += step) {
    const x = time.at(ms);
    if (x < names - 1 || x > wide - right + 1) continue;
    parts.push(node("line", { class: "tick", x1: x, x2: x, y1: 4, y2: 158 }));
    if (!time.narrow || ms % 1000 === 0) parts.push(text(x, 173, time.folds.length ? "" : `${ms / 1000} s`, "", ms === 0 ? "start" : "middle"));
  }
  for (const [name, label] of [["browser", "Browser"], ["A", "Pod A"], ["B", "Pod B"], ["key", "Key"]]) {
    const { y, h } = lanes[name];
    parts.push(text(0, name === "browser" ? y + 12 : y + h / 2 + 4, label, "lane-name"));
    if (name !== "browser") parts.push(node("line", { class: "lane", x1: names, x2: wide - right, y1: y + h / 2, y2: y + h / 2 }));
  }
  return parts;
}

function drawBrowser(into, story, time) {
  const { y } = lanes.browser;
  for (const group of groups(story, time)) {
    const middle = y + 8 + group.row * 15;
    into.append(node("line", { class: "request", x1: group.from, x2: group.to, y1: middle, y2: middle }));
    for (const x of group.sent) into.append(node("circle", { class: "sent", cx: x, cy: middle, r: 3.5 }));
    if (group.fits) into.append(text(group.to + 5, middle + 4, group.label, "response " + group.tone));
  }
}

// groups puts the requests into three rows. Requests with equal outcomes whose labels would
// overlap are one group with one label. A label without room is left out.
function groups(story, time) {
  const rows = [[], [], []], all = [];
  for (const r of story.requests) {
    const from = time.x(r.from), to = Math.max(time.x(r.to ?? time.end), from + 4);
    const [outcome, tone] = responseOf(r, time.narrow);
    const equal = rows.map((row) => row.at(-1)).find((g) => g && g.outcome === outcome && from < ends(g) + 6);
    if (equal) {
      equal.sent.push(from);
      equal.to = Math.max(equal.to, to);
      equal.label = outcome && `${outcome} × ${equal.sent.length}`;
      continue;
    }
    let row = rows.findIndex((row) => !row.length || ends(row.at(-1)) < from - 6);
    const fits = row >= 0;
    if (!fits) row = rows.indexOf(rows.toSorted((a, b) => ends(a.at(-1)) - ends(b.at(-1)))[0]);
    const group = { row, fits, outcome, tone, label: outcome, sent: [from], from, to };
    rows[row].push(group);
    all.push(group);
  }
  return all;
}

const ends = (group) => group.to + (group.fits && group.label ? 5 + group.label.length * 7.2 : 0);

function responseOf(request, narrow) {
  if (request.to === undefined) return ["", ""];
  if (!request.status) return [narrow ? "✕" : "✕ no response", "none"];
  if (request.result === "replay") return [narrow ? String(request.status) : `${request.status} replay`, "replay"];
  return [String(request.status), request.status === 409 || request.status === 422 ? "conflict" : ""];
}

function drawPod(into, story, pod, time) {
  const { y, h } = lanes[pod];
  for (const down of story.downs.filter((d) => d.pod === pod)) bar(into, time.x(down.from), time.x(down.to ?? time.end), y, h, "down", "killed");
  for (const run of together(story.runs.filter((r) => r.pod === pod), time.end)) {
    const label = run.keyless ? (run.times > 1 ? `runs × ${run.times}` : "runs") : `attempt ${run.attempt}`;
    const coin = story.coins.find((c) => c.pod === pod && c.at >= run.from && c.at <= run.to);
    bar(into, time.x(run.from), time.x(run.to), y, h, "run", label, 18 + (coin ? time.x(run.to) - time.x(coin.at) : 0));
  }
  for (const v of story.visits.filter((v) => v.pod === pod)) {
    const x = time.x(v.at), overRun = story.runs.some((r) => r.pod === pod && r.from <= v.at && (r.to ?? time.end) >= v.at);
    into.append(node("line", { class: v.replay ? "visit replay" : "visit", x1: x, x2: x, y1: overRun ? y + h - 6 : y + 3, y2: overRun ? y + h + 2 : y + h - 3 }));
  }
  for (const coin of story.coins.filter((c) => c.pod === pod)) {
    const x = time.x(coin.at), known = coin.known ? " known" : "";
    into.append(node("circle", { class: "coin" + known, cx: x, cy: y + h / 2, r: 9 }), text(x, y + h / 2 + 3.5, "€", "coin-label" + known));
  }
}

// together joins runs that overlap: without a key they run at the same time.
function together(runs, end) {
  const joined = [];
  for (const run of runs) {
    const last = joined.at(-1), to = run.to ?? end;
    if (last && run.from < last.to) Object.assign(last, { to: Math.max(last.to, to), times: last.times + 1 });
    else joined.push({ ...run, to, times: 1 });
  }
  return joined;
}

const keyWords = { flight: "in flight", saved: "completed: the response is stored", orphan: "held by a dead pod" };

function drawKey(into, story, time) {
  const { y, h } = lanes.key;
  if (story.runs.length && story.runs.every((r) => r.keyless)) {
    bar(into, time.x(story.start), time.x(time.end + tail), y, h, "nothing", "no key: the store has no record");
    return;
  }
  for (const k of story.key) {
    const to = k.to ?? time.end + (k.kind === "saved" ? tail : 0);
    const until = k.kind === "orphan" ? Math.min(to, k.until) : to;
    bar(into, time.x(k.from), time.x(until), y, h, k.kind, keyWords[k.kind]);
    if (until < to) bar(into, time.x(until) + 2, time.x(to) - 2, y, h, "expired", "expired");
  }
}

// Bars without room for a label are explained by the legend.
const legend = { flight: "in flight", run: "handler runs", orphan: "held by a dead pod", expired: "lease expired", saved: "completed", nothing: "no key", down: "pod killed" };
const wordless = new Set();

// bar draws a span, and its label where there is room.
function bar(into, from, to, y, h, kind, label, spare = 12) {
  const width = Math.max(3, to - from);
  into.append(node("rect", { class: kind, x: from, y: y + 2, width, height: h - 4, rx: 5 }));
  const short = label.split(":")[0];
  const fits = [label, short].find((l) => l.length * 7 + spare < width);
  if (!fits) wordless.add(kind);
  else into.append(text(from + (kind === "down" ? 14 : 8), y + h / 2 + 4, fits, `bar-label ${kind === "flight" ? "run" : kind}-label`));
}

function text(x, y, words, kind, anchor = "") {
  const t = node("text", { x, y, class: kind });
  if (anchor) t.setAttribute("text-anchor", anchor);
  t.textContent = words;
  return t;
}

function node(name, attributes, children = []) {
  const n = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) n.setAttribute(key, value);
  n.append(...children);
  return n;
}
