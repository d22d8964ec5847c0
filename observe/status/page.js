"use strict";
// The page follows the events of a run and draws what it knows, twice a second at most. Everything that comes from nodes and
// providers is shown by textContent alone.

const $ = (id) => document.getElementById(id);
const rows = { nodes: 100, tasks: 50 }; // that are shown at first, and come with each "Show more"
const otherRows = 20;

// ---- What is known

const keyOf = {
  pools: (p) => p.id,
  nodes: (n) => n.key,
  tasks: (t) => join(t.pool, t.id),
  groups: (g) => join(g.pool, g.name),
  phases: (p) => join(p.pool, p.node, p.name, p.began),
  transfers: (t) => join(t.pool, t.node, t.task, t.what, t.began),
  failures: (f) => join(f.seq, f.kind),
  offers: (o) => join(o.pool, o.provider, o.instanceType, o.region, o.at),
};
const run = { head: null, received: 0, ended: false };
for (const list in keyOf) run[list] = new Map();
const dirty = new Set();

function join(...parts) { return parts.map((p) => p ?? "").join("\n"); }

// apply takes a whole run, or the parts of one that have changed. It reports false if they are those of another run.
function apply(data, whole) {
  if (!whole && run.head?.began && run.head.began !== data.began) return false;
  run.head = data;
  run.received = performance.now();
  run.ended = false;
  for (const list in keyOf) {
    if (whole) run[list].clear();
    for (const key of data.gone?.[list] ?? []) run[list].delete(key);
    if (whole || data[list] || data.gone?.[list]) dirty.add(list);
    for (const item of data[list] ?? []) {
      const key = keyOf[list](item), old = run[list].get(key);
      item.key ??= key;
      if (list === "tasks") item.changed = Math.max(...[item.queued, item.started, item.ended].map((t) => (t ? Date.parse(t) : 0)));
      if (list === "phases" && item.progress) follow(item, old);
      run[list].set(key, item);
    }
  }
  return true;
}

// follow keeps what a phase has done in the last ten seconds.
function follow(phase, old) {
  const at = now(), done = phase.progress.done, past = old?.past ?? [];
  phase.past = past.filter((p) => at - p.at < 10000 && p.done <= done);
  phase.past.push({ at, done });
  phase.moved = past.length && past.at(-1).done === done ? old.moved : at;
}

function now() { return run.head?.at ? Date.parse(run.head.at) + (run.ended ? 0 : performance.now() - run.received) : Date.now(); }
const since = (time) => (now() - Date.parse(time)) / 1000;

// ---- Words

function duration(s) {
  s = Math.max(0, s);
  if (!isFinite(s)) return "";
  if (s < 10) return s.toFixed(1) + "s";
  s = Math.round(s);
  if (s < 60) return s + "s";
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h" + two(Math.floor(s / 60) % 60) + "m";
  return Math.floor(s / 86400) + "d" + two(Math.floor(s / 3600) % 24) + "h";
}
function usd(v) {
  if (v == null) return "unknown";
  return "$" + v.toFixed(v !== 0 && Math.abs(v) < 0.1 ? 4 : 2);
}
function bytes(v) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (v < 1024) return (unit === "B" || v >= 100 ? v.toFixed(0) : v.toFixed(1)) + " " + unit;
    v /= 1024;
  }
  return v.toFixed(1) + " TiB";
}
const whole = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const percent = (v) => (v == null ? "?" : Math.round(v) + "%");
const gib = (v) => (v == null ? "?" : v >= 10 ? v.toFixed(0) : v.toFixed(1));
const value = (v) => (v == null ? "?" : Number(v.toPrecision(4)).toString());
const clock = (time) => (time ? new Date(time).toLocaleTimeString([], { hour12: false }) : "");
const amount = (n, unit) => (unit === "By" ? bytes(n) : whole(n));

const looks = {
  ready: "good", done: "good", taken: "good", cached: "good", failed: "bad", lost: "bad", unreachable: "bad", refused: "warn",
  retrying: "warn", silent: "warn", started: "busy", sending: "busy", receiving: "busy", trying: "busy",
};
const stateWords = { started: "running", queued: "waiting" };
const state = (s) => ({ tag: "span", text: stateWords[s] ?? s, class: "state " + (looks[s] ?? "") });
const minor = (text) => ({ text, class: "minor" });
const error = (text) => ({ text: text.split("\n", 1)[0], class: "error" });
const bar = (label, done, total, words) => ({ tag: "progress", label, done, total, words });

// remaining returns what is said about the end of something that has so many units left.
function remaining(left, rate, quiet, stalled) {
  if (stalled) return "stalled for " + duration(quiet);
  return rate > 0 ? "ETA " + duration(Math.max(left / rate - quiet, 0)) : "";
}

// stepParts shows how far a task has come, by the rules of observe.Task.
function stepParts(t) {
  const s = t.step;
  if (!s) return [];
  const quiet = since(t.stepAt), rate = t.stepsPerSecond ?? 0, runs = t.state === "started";
  const stalled = runs && quiet > 15 && (rate <= 0 || quiet > 10 / rate);
  const sure = runs && s.of > 0 && since(t.started) >= 3 && s.n * 100 >= s.of;
  const words = [s.of ? `${whole(s.n)}/${whole(s.of)}` : `step ${whole(s.n)}`];
  for (const [name, v] of Object.entries(s.values ?? {}).slice(0, 4)) words.push(`${name} ${value(v)}`);
  if (stalled || sure) words.push(remaining(s.of - s.n, rate, quiet, stalled));
  const text = words.filter(Boolean).join(" · ");
  return [...(s.of ? [bar("Progress of " + (t.name || t.id), s.n, s.of, text)] : []), minor(text)];
}

function phaseParts(p) {
  const words = [], g = p.progress;
  if (g) {
    const first = p.past[0], last = p.past.at(-1), quiet = (now() - p.moved) / 1000;
    words.push([g.what, g.total ? `${amount(g.done, g.unit)}/${amount(g.total, g.unit)}` : amount(g.done, g.unit), g.unit === "By" ? "" : g.unit].filter(Boolean).join(" "));
    const rate = last.at > first.at ? (last.done - first.done) / ((last.at - first.at) / 1000) : 0;
    if (!p.ended && g.total && g.done < g.total && g.done * 100 >= g.total && since(p.began) >= 3) words.push(remaining(g.total - g.done, rate, (now() - last.at) / 1000, quiet > 15));
  }
  if (p.began) words.push(duration(p.ended ? (Date.parse(p.ended) - Date.parse(p.began)) / 1000 : since(p.began)));
  if (!p.ended && !g?.total && p.usualSeconds) words.push("usually " + duration(p.usualSeconds));
  const text = words.filter(Boolean).join(" · ");
  return [...(g?.total ? [bar("Progress of " + p.name, g.done, g.total, text)] : []), minor(text), ...(p.error ? [error(p.error)] : [])];
}

// ---- The token

// The token that the server asks for is at the end of the address that the program has printed, behind the "#": no request has that.
// It is taken from the address, so that bookmarks and pictures of the window lack it, and kept for this tab and this server, with its
// port, for a reload. Without a token, as behind a server of the program's own, none is sent.
let token = "";

// takeToken reports whether the address has had a token.
function takeToken() {
  const given = location.hash.startsWith("#token=");
  try {
    if (given) sessionStorage.setItem("token", location.hash.slice("#token=".length));
    token = sessionStorage.getItem("token") ?? "";
  } catch { // nothing is kept in this browser
    if (given) token = location.hash.slice("#token=".length);
  }
  if (given) history.replaceState(null, "", location.pathname + location.search);
  return given;
}

const ask = (path, options) => fetch(path, { ...options, headers: { ...options?.headers, ...(token ? { Authorization: "Bearer " + token } : {}) } });

// ---- Drawing

// put makes the children of an element show parts. Elements stay if they can, so that focus and selection do.
function put(parent, parts) {
  const shown = JSON.stringify(parts);
  if (parent.shown === shown) return;
  parent.shown = shown;
  parts.forEach((part, i) => {
    const tag = part.tag ?? "div";
    let el = parent.children[i];
    if (el?.localName !== tag) {
      const made = document.createElement(tag);
      if (el) el.replaceWith(made); else parent.append(made);
      el = made;
    }
    if (tag === "progress") {
      el.setAttribute("aria-label", part.label);
      el.setAttribute("aria-valuetext", part.words);
      el.max = part.total > 0 ? part.total : 1;
      el.value = Math.min(Math.max(part.done, 0), el.max);
      return;
    }
    el.textContent = part.text;
    el.className = part.class ?? "";
    if (part.full && part.full !== part.text) el.title = part.full; else el.removeAttribute("title");
  });
  while (parent.children.length > parts.length) parent.lastElementChild.remove();
}
const say = (id, text) => { const el = $(id); if (el.textContent !== text) el.textContent = text; };
const showIf = (el, on) => { if (el.hidden === on) el.hidden = !on; };

// A Table draws items as rows, or as elements of a list, and keeps those rows that stay. details, if there is one, shows more of
// an item below its row.
class Table {
  constructor(id, columns, details) {
    Object.assign(this, { id, columns, details, section: $(id), rows: new Map(), step: rows[id] ?? otherRows });
    this.limit = this.step;
    this.body = this.section.querySelector("tbody");
    this.rest = this.section.querySelector(".rest");
    const head = this.section.querySelector("thead tr");
    // The roles stay when a narrow screen lays the table out as a list.
    this.section.querySelector("table").setAttribute("role", "table");
    for (const group of [head.parentElement, this.body]) group.setAttribute("role", "rowgroup");
    head.setAttribute("role", "row");
    for (const c of columns) {
      const th = document.createElement("th");
      th.scope = "col";
      th.setAttribute("role", "columnheader");
      th.textContent = c.name;
      th.className = c.class ?? "";
      head.append(th);
    }
  }

  draw(items) {
    const focused = document.activeElement;
    const shown = items.slice(0, this.limit), keep = new Set(shown.map((item) => item.key));
    for (const [key, row] of this.rows) {
      if (keep.has(key)) continue;
      row.more?.remove();
      row.remove();
      this.rows.delete(key);
    }
    let at = this.body.firstElementChild;
    for (const item of shown) {
      const row = this.row(item);
      for (const el of row.more ? [row, row.more] : [row]) {
        if (el === at) at = at.nextElementSibling; else this.body.insertBefore(el, at);
      }
    }
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
    this.drawRest(items.length);
  }

  row(item) {
    let row = this.rows.get(item.key);
    if (!row) {
      row = document.createElement("tr");
      row.setAttribute("role", "row");
      for (const c of this.columns) {
        const td = document.createElement("td");
        td.setAttribute("role", "cell");
        td.className = c.class ?? "";
        if (c.label !== false) td.dataset.label = c.name;
        row.append(td);
      }
      if (this.details) row.addEventListener("click", (e) => { if (e.target.closest("button")) this.toggle(row); });
      this.rows.set(item.key, row);
    }
    row.item = item;
    this.columns.forEach((c, i) => put(row.children[i], c.parts(item)));
    const button = this.details && row.querySelector("button");
    if (button) button.setAttribute("aria-expanded", String(!!row.more));
    if (row.more) this.details(row.more.firstElementChild, item);
    return row;
  }

  toggle(row) {
    if (row.more) {
      row.more.remove();
      row.more = null;
    } else {
      row.more = document.createElement("tr");
      row.more.className = "details";
      row.more.setAttribute("role", "row");
      const td = document.createElement("td");
      td.colSpan = this.columns.length;
      td.setAttribute("role", "cell");
      row.more.append(td);
      row.after(row.more);
    }
    this.row(row.item);
  }

  drawRest(all) {
    const hidden = all - Math.min(all, this.limit);
    if (this.rest.hiddenRows === hidden) return;
    this.rest.hiddenRows = hidden;
    put(this.rest, hidden ? [{ tag: "span", text: `and ${whole(hidden)} more` }, { tag: "button", text: `Show ${whole(Math.min(hidden, this.step))} of them` }] : []);
    const button = this.rest.querySelector("button");
    if (button) button.onclick = () => { this.limit += this.step; drawAll(); };
  }
}

// Details show facts and, once they were fetched, lines.
function showDetails(cell, facts, lines) {
  if (!cell.facts) {
    cell.facts = document.createElement("dl");
    cell.lines = document.createElement("pre");
    cell.lines.tabIndex = 0;
    cell.lines.setAttribute("aria-label", "Last lines");
    cell.append(cell.facts, cell.lines);
  }
  put(cell.facts, facts.filter(([, text]) => text).flatMap(([name, text]) => [{ tag: "dt", text: name }, { tag: "dd", text: String(text) }]));
  showIf(cell.lines, lines != null);
  if (lines == null || cell.lines.textContent === lines) return;
  const atEnd = cell.lines.scrollTop + cell.lines.clientHeight >= cell.lines.scrollHeight - 4;
  cell.lines.textContent = lines;
  if (atEnd) cell.lines.scrollTop = cell.lines.scrollHeight;
}

// fetched returns the list that a part of run.json has, as it was when it was fetched last, and fetches it again after a while.
function fetched(cell, list, query, live) {
  const due = cell.fetchedAt === undefined || (live && performance.now() - cell.fetchedAt > 2000) || cell.wasLive !== live;
  if (due && !cell.fetching) {
    cell.fetching = true;
    ask("run.json?" + new URLSearchParams(query))
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer.status)))
      .then((part) => { cell.answer = part[list] ?? []; }, () => {})
      .finally(() => { cell.fetching = false; cell.fetchedAt = performance.now(); cell.wasLive = live; schedule(); });
  }
  return cell.answer;
}

// The lines of one attempt, if that is given, or of all, each attempt under its number.
const linesOf = (items, attempt) => {
  if (!items) return "Loading.";
  let last = 1;
  const lines = items.flatMap((i) => i.lines ?? []).filter((l) => !attempt || !l.attempt || l.attempt === attempt).flatMap((l) => {
    const head = !attempt && l.attempt && l.attempt !== last ? [`--- attempt ${l.attempt}`] : [];
    last = l.attempt || last;
    return [...head, l.omitted ? `(${l.omitted} lines left out)` : l.text];
  });
  return lines.length ? lines.join("\n") : "It has printed nothing that is kept.";
};

// ---- Tables

const nodeName = (key) => { const n = run.nodes.get(key); return n ? "node " + n.rank : ""; };
const place = (n) => [n.provider, n.region].filter(Boolean).join(" ");
const isGone = (n) => ["lost", "failed", "terminated"].includes(n.state);

// loadParts shows the use of accelerators, as the mean of those that are known, and of the machine's memory.
function loadParts(n) {
  const parts = [], gpus = n.usage ?? [];
  const sum = (name) => gpus.reduce((s, a) => s + (a[name] ?? 0), 0), known = gpus.filter((a) => a.utilization != null);
  if (gpus.length) {
    const mean = known.length ? known.reduce((s, a) => s + a.utilization, 0) / known.length : null;
    const words = `GPU ${percent(mean)} · ${gib(sum("memoryGiB"))}/${gib(sum("memoryTotalGiB"))} GiB`;
    if (mean != null) parts.push(bar(`GPU use of node ${n.rank}`, mean, 100, words));
    parts.push(minor(words));
  }
  if (n.host) parts.push(minor(`CPU ${percent(n.host.cpu)} · ${gib(n.host.memoryGiB)}/${gib(n.host.memoryTotalGiB)} GiB`));
  return parts;
}

function workParts(n, phases) {
  const phase = phases.get(n.key);
  if (phase && !isGone(n)) return [{ text: phase.name }, ...phaseParts(phase)];
  const ids = n.tasks ?? [], parts = [];
  for (const id of ids.slice(0, 3)) {
    const t = run.tasks.get(join(n.pool, id));
    parts.push({ text: t?.name || id }, ...(t ? stepParts(t) : []));
  }
  if (ids.length > 3) parts.push(minor(`and ${ids.length - 3} more tasks`));
  if (n.error && n.state !== "ready") parts.push({ ...error(n.error), full: n.error });
  if (!parts.length && n.state === "ready") parts.push(minor(n.ended ? `idle · ${whole(n.ended)} ended` : "idle"));
  return parts;
}

let runningPhases = new Map(); // by the keys of nodes

const tables = {
  nodes: new Table("nodes", [
    { name: "Node", class: "name", label: false, parts: (n) => [{ tag: "button", text: (run.pools.size > 1 ? n.pool + " " : "node ") + n.rank }] },
    { name: "State", class: "short", parts: (n) => [state(n.state), ...(n.since ? [minor(duration(since(n.since)))] : []), ...(n.preempt ? [{ text: "preempted in " + duration(-since(n.preempt)), class: "warn" }] : [])] },
    { name: "Place", class: "text", parts: (n) => [n.provider, n.region].filter(Boolean).map((text, i) => (i ? minor(text) : { text })) },
    { name: "Type", class: "text", parts: (n) => [n.accelerator, n.instanceType].filter(Boolean).map((text, i) => (i ? minor(text) : { text })) },
    { name: "$/h", class: "number", parts: (n) => (n.hourlyUSD != null || n.provider ? [{ text: n.hourlyUSD == null ? "unknown" : usd(n.hourlyUSD).slice(1) }, ...(n.market === "spot" ? [minor("spot")] : [])] : []) },
    { name: "Use", class: "wide", parts: loadParts },
    { name: "Work", class: "wide", parts: (n) => workParts(n, runningPhases) },
  ], (cell, n) => showDetails(cell, [
    ["Name", n.name], ["Machine", n.id], ["Address", [n.publicAddr, n.privateAddr].filter(Boolean).join(", ")], ["Host key", n.hostKey],
    ["System", [n.os, n.arch, n.vcpus ? n.vcpus + " CPUs" : "", n.memoryGiB ? gib(n.memoryGiB) + " GiB" : ""].filter(Boolean).join(", ")],
    ["Launched", clock(n.launched)], ["Ready", clock(n.readyAt)], ["Gone", clock(n.gone)], ["Lease until", clock(n.leaseUntil)], ["Tasks that ended", n.ended],
    ...(n.usage ?? []).map((a) => [a.device, [`${percent(a.utilization)}`, `${gib(a.memoryGiB)}/${gib(a.memoryTotalGiB)} GiB`, a.celsius == null ? "" : `${value(a.celsius)} °C`,
      a.watts == null ? "" : `${value(a.watts)} W`, a.slowed ? "slowed: " + a.slowed : "", a.uncorrected ? a.uncorrected + " memory errors" : ""].filter(Boolean).join(", ")]),
    ["Disk", n.host ? `${gib(n.host.diskGiB)}/${gib(n.host.diskTotalGiB)} GiB` : ""], ["Error", n.error],
  ])),
  tasks: new Table("tasks", [
    { name: "Task", class: "name", label: false, parts: (t) => [{ tag: "button", text: t.name || t.id, full: t.id }] },
    { name: "State", class: "short", parts: (t) => [state(t.state), ...(t.attempt > 1 ? [minor("attempt " + t.attempt)] : [])] },
    { name: "Node", class: "short", parts: (t) => (nodeName(t.node) ? [{ text: nodeName(t.node) }] : []) },
    { name: "Time", class: "number", parts: (t) => (t.ended ? [{ text: duration(t.elapsedSeconds ?? 0) }] : t.state === "started" || t.state === "silent" ? [{ text: duration(since(t.started)) }] : []) },
    { name: "Progress", class: "wide", parts: (t) => [...stepParts(t), ...(t.error ? [{ ...error(t.error), full: t.error }] : [])] },
  ], (cell, t) => {
    const task = fetched(cell, "tasks", { pool: t.pool, task: t.id }, !t.ended), full = task?.[0];
    showDetails(cell, [
      ["ID", t.id], ["Queued", clock(t.queued)], ["Started", clock(t.started)], ["Ended", clock(t.ended)], ["Slot", t.node ? String(t.slot) : ""], ["Cause", t.cause], ["Exit code", t.exitCode],
      ["Cost", t.spentUSD ? usd(t.spentUSD) : ""], ["Values", Object.entries(t.step?.values ?? {}).map(([k, v]) => `${k} ${value(v)}`).join(", ")],
      ...(full?.attempts?.length > 1 ? full.attempts.map((a) => ["Attempt " + a.number, [[a.node, ...(a.nodes ?? [])].map(nodeName).filter(Boolean).join(" "), clock(a.began), a.ended ? a.cause || "done" : "runs"].filter(Boolean).join(", ")]) : []),
      ["Error", t.error],
    ], linesOf(task));
  }),
  phases: new Table("phases", [
    { name: "Phase", class: "name", label: false, parts: (p) => [{ tag: "button", text: p.name }] },
    { name: "Node", class: "short", parts: (p) => [{ text: nodeName(p.node) || "this computer" }] },
    { name: "State", class: "short", parts: (p) => [state(p.state)] },
    { name: "Progress", class: "wide", parts: phaseParts },
  ], (cell, p) => showDetails(cell, [["Began", clock(p.began)], ["Ended", clock(p.ended)], ["Error", p.error]],
    linesOf(fetched(cell, "phases", { node: p.node ?? "", phase: p.name }, !p.ended)?.filter((f) => f.pool === p.pool && f.began === p.began)))),
  transfers: new Table("transfers", [
    { name: "What", class: "name", label: false, parts: (t) => [{ text: t.what }, ...(t.task ? [minor(t.name || t.task)] : [])] },
    { name: "Node", class: "short", parts: (t) => [{ text: nodeName(t.node) }] },
    { name: "State", class: "short", parts: (t) => [state(t.state)] },
    { name: "Progress", class: "wide", parts: (t) => {
      const over = t.state === "done" || t.state === "failed", left = t.total ? t.total - t.bytes : 0;
      const words = [t.total ? `${bytes(t.bytes)}/${bytes(t.total)}` : bytes(t.bytes), t.bytesPerSecond ? bytes(t.bytesPerSecond) + "/s" : "",
        over || left <= 0 ? "" : remaining(left, t.bytesPerSecond ?? 0, since(t.at), since(t.at) > 15)].filter(Boolean).join(" · ");
      return [...(t.total ? [bar("Progress of " + t.what, t.bytes, t.total, words)] : []), minor(words), ...(t.error ? [error(t.error)] : [])];
    } },
  ]),
  offers: new Table("offers", [
    { name: "Offer", class: "name", label: false, parts: (o) => [{ text: o.instanceType ?? "" }] },
    { name: "Place", parts: (o) => [{ text: place(o) }] },
    { name: "$/h", class: "number", parts: (o) => [{ text: o.hourlyUSD == null ? "unknown" : usd(o.hourlyUSD).slice(1) }, ...(o.spot ? [minor("spot")] : [])] },
    { name: "At", class: "short", parts: (o) => [{ text: clock(o.at) }] },
    { name: "Result", class: "wide", parts: (o) => [state(o.state), ...(o.error ? [{ ...error(o.error), full: o.error }] : [])] },
  ]),
  failures: new Table("failures", [
    { name: "What", class: "name", label: false, parts: (f) => [{ tag: "button", text: [f.kind === "task" || f.kind === "phase" ? "" : f.kind, f.name || f.task, f.phase].filter(Boolean).join(" ") || f.kind }] },
    { name: "Node", class: "short", parts: (f) => [{ text: f.rank >= 0 ? "node " + f.rank : "" }] },
    { name: "At", class: "short", parts: (f) => [{ text: clock(f.at) }, ...(f.retried ? [minor("tried again")] : [])] },
    { name: "Why", class: "wide", parts: (f) => [...(f.cause ? [{ text: f.cause }] : []), ...(f.error ? [{ ...error(f.error), full: f.error }] : [])] },
  ], (cell, f) => {
    const full = fetched(cell, "failures", { failure: f.seq }, false)?.find((one) => one.kind === f.kind);
    let lines = full ? [full.tail, full.stack].filter(Boolean).join("\n\n") : cell.answer ? "" : "Loading.";
    if (full && !lines) {
      cell.other ??= {}; // where the answer to another question is kept
      if (f.task) lines = linesOf(fetched(cell.other, "tasks", { pool: f.pool, task: f.task }, false), f.attempt);
      else if (f.phase) lines = linesOf(fetched(cell.other, "phases", { node: f.node ?? "", phase: f.phase }, false));
    }
    showDetails(cell, [["Error", f.error], ["Attempt", f.attempt], ["Pool", f.pool]], lines || null);
  }),
};

// ---- The page

const kinds = {
  nodes: { ready: (s) => s === "ready", broken: (s) => s === "unreachable" || s === "failed", gone: (s) => s === "lost" || s === "terminated" },
  tasks: { running: (s) => s === "started" || s === "silent", waiting: (s) => s === "queued" || s === "retrying" },
};
kinds.nodes.starting = (s) => !["ready", "broken", "gone"].some((k) => kinds.nodes[k](s));
kinds.nodes.here = (s) => !kinds.nodes.gone(s);

const filtered = {
  nodes: () => {
    const is = kinds.nodes[$("nodes-filter").value] ?? (() => true), pools = [...run.pools.keys()];
    const rank = (n) => [isGone(n) ? 1 : 0, pools.indexOf(n.pool), n.rank];
    const order = new Map([...run.nodes.values()].map((n) => [n, rank(n)]));
    return [...order.keys()].filter((n) => is(n.state)).sort((a, b) => { const x = order.get(a), y = order.get(b); return x[0] - y[0] || x[1] - y[1] || x[2] - y[2]; });
  },
  tasks: () => {
    const kind = $("tasks-filter").value, find = $("tasks-find").value.trim().toLowerCase();
    const is = kinds.tasks[kind] ?? ((s) => kind === "all" || s === kind);
    return [...run.tasks.values()].filter((t) => is(t.state) && (!find || t.id.toLowerCase().includes(find) || (t.name ?? "").toLowerCase().includes(find)))
      .reverse().sort((a, b) => b.changed - a.changed);
  },
  phases: () => [...run.phases.values()].reverse().sort((a, b) => (a.ended ? 1 : 0) - (b.ended ? 1 : 0)),
  transfers: () => [...run.transfers.values()].reverse(),
  offers: () => [...run.offers.values()].reverse(),
  failures: () => [...run.failures.values()].reverse(),
};
const drawn = {};

function drawHead() {
  const h = run.head, c = h.counts, over = run.pools.size > 0 && [...run.pools.values()].every((p) => p.closed);
  const seconds = (now() - Date.parse(h.at)) / 1000;
  const spent = h.spentUSD == null ? null : h.spentUSD + (h.hourlyUSD ?? 0) * seconds / 3600;
  say("spent", usd(spent));
  say("budget", h.budgetUSD ? "of " + usd(h.budgetUSD) : "no budget");
  put($("budget-bar"), h.budgetUSD ? [bar("Spent of the budget", spent, h.budgetUSD, `${usd(spent)} of ${usd(h.budgetUSD)}`)] : []);
  say("hourly", usd(h.hourlyUSD) + "/h");
  say("most", !run.pools.size || over ? "" : h.bounded ? `at most ${usd(h.atMostUSD)} if this program dies now` : "unbounded if this program dies now");
  $("most").className = h.bounded ? "minor" : "minor warn";
  const words = (pairs) => pairs.filter(([n]) => n).map(([n, word]) => `${whole(n)} ${word}`).join(", ");
  const all = c.waiting + c.running + c.done + c.failed + c.cancelled, nodes = c.ready + c.starting + c.broken;
  say("nodes-count", `${whole(c.ready)}/${whole(nodes)} ready`);
  say("nodes-more", words([[c.starting, "starting"], [c.broken, "broken"], [c.gone, "gone"]]) + (c.slots ? (c.starting + c.broken + c.gone ? "; " : "") + `${whole(c.busy)}/${whole(c.slots)} slots busy` : ""));
  say("tasks-count", `${whole(c.done)}/${whole(all)} done`);
  say("tasks-more", words([[c.running, "running"], [c.waiting, "waiting"], [c.failed, "failed"], [c.cancelled, "cancelled"], [c.retries, "retries"]]));
  put($("tasks-bar"), all ? [bar("Tasks that have ended", c.done + c.failed + c.cancelled, all, `${c.done} of ${all} done, ${c.failed} failed`)] : []);
  document.title = (all ? `${c.done}/${all} tasks` : `${c.ready}/${nodes} nodes`) + (c.failed ? `, ${c.failed} failed` : "") + " · gputrain";
  put($("pools"), [...run.pools.values()].map((p) => ({ tag: "li", text: poolText(p), class: p.error ? "error" : "" })));
  announce(`${c.ready} of ${nodes} nodes ready. ${c.done} of ${all} tasks done${c.failed ? `, ${c.failed} failed` : ""}.`);
}

function poolText(p) {
  const s = p.spec, words = [`${p.id}: ${p.state || "known"}`];
  if (p.opened) words.push(p.closed ? `after ${duration((Date.parse(p.closed) - Date.parse(p.opened)) / 1000)}` : `for ${duration(since(p.readyAt ?? p.opened))}`);
  if (s) words.push(`${s.maxNodes > s.nodes ? `${s.nodes} to ${s.maxNodes}` : s.nodes || 1} × ${p.accelerator}`);
  if (p.waiting && !p.closed) words.push("waits: " + p.waiting.split("\n", 1)[0]);
  if (p.error) words.push(p.error);
  return words.join(" · ");
}

// announce tells screen readers what has changed, every ten seconds at most.
function announce(text) {
  if (announce.text === text || performance.now() < (announce.next ?? 0)) return;
  announce.text = text;
  announce.next = performance.now() + 10000;
  say("announce", text);
}

function drawAll() {
  if (!run.head) return;
  runningPhases = new Map();
  for (const p of run.phases.values()) if (p.node && !p.ended) runningPhases.set(p.node, p);
  drawHead();
  for (const [list, table] of Object.entries(tables)) {
    if (dirty.has(list) || !drawn[list]) drawn[list] = filtered[list]();
    table.draw(drawn[list]);
    const all = run[list].size;
    const count = table.section.querySelector(".count"), words = drawn[list].length === all ? whole(all) : `${whole(drawn[list].length)} of ${whole(all)}`;
    if (count.textContent !== words) count.textContent = words;
    if (list !== "nodes" && list !== "tasks") showIf(table.section, all > 0);
  }
  dirty.clear();
}

let timer = 0, drawnAt = -1000;
function schedule() {
  timer ||= setTimeout(() => { timer = 0; drawnAt = performance.now(); drawAll(); }, Math.max(0, 500 - (performance.now() - drawnAt)));
}
for (const id of ["nodes-filter", "tasks-filter", "tasks-find"]) {
  $(id).addEventListener("input", () => { const list = id.split("-")[0]; dirty.add(list); tables[list].limit = tables[list].step; schedule(); });
}
setInterval(() => { if (!document.hidden) schedule(); }, 1000); // times go on

// ---- The connection

let stream = null, again = 0, lastId = "";

// connect follows the events until the connection ends, and then tries again. It goes on after what the page knows.
async function connect() {
  clearTimeout(again);
  stream?.abort();
  const own = (stream = new AbortController());
  let why = "The connection is lost; trying again.", pause = 2000;
  try {
    const answer = await ask("events", { signal: own.signal, headers: lastId && !run.ended ? { "Last-Event-ID": lastId } : {} });
    if (answer.ok) {
      if (!run.ended) tell("Live", false);
      await take(answer.body, own);
    } else {
      pause = 5000;
      if (answer.status === 401) why = token || run.head ? "The program was started again, and lets this page in no more. Open the address that it has printed."
        : "This page is for those who have its whole address. Open the one that the program has printed, with #token= at its end.";
      if (answer.status === 503) why = "Too many pages follow this run; trying again.";
    }
  } catch { /* the connection is lost, as is said */ }
  if (stream !== own) return; // there is another connection, or the page is not seen
  if (run.ended) {
    if (pause > 2000) tell(`${endText()} Another program is at this address now: open the one that it has printed.`, false);
    again = setTimeout(connect, 5000);
    return;
  }
  tell(why + (run.head ? ` What is shown is of ${clock(run.head.at)}.` : ""), true);
  again = setTimeout(connect, pause);
}

// take applies the events of a stream, each of which ends with an empty line.
async function take(body, own) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [], end = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || stream !== own) return;
    parts.push(value);
    const ended = (end + value).includes("\n\n");
    end = value.at(-1) ?? end;
    if (!ended) continue;
    const events = parts.join("").split("\n\n");
    parts = [events.pop()];
    for (const text of events) {
      const event = Object.fromEntries(text.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (!event.data) continue;
      if (event.event === "end") {
        tellEnd();
        continue;
      }
      if (run.ended) tell("Live", false);
      if (!apply(JSON.parse(event.data), event.event === "run")) {
        lastId = "";
        connect();
        return;
      }
      lastId = event.id;
      schedule();
    }
  }
}

// tellEnd says that no more comes, and has all times stand still.
function tellEnd() {
  run.ended = true;
  tell(endText(), false);
  schedule();
}

function endText() {
  const pools = [...run.pools.values()], gone = pools.length && pools.every((p) => p.closed && !p.error);
  return gone ? "The run has ended: all machines are gone." : `The run has ended. What is shown is its last state, of ${clock(run.head.at)}.`;
}

function tell(text, isLost) {
  say("connection", text);
  $("connection").className = isLost ? "lost" : "";
}

// The links to data are saved as files if a token is needed: a link cannot send it.
for (const link of document.querySelectorAll("footer a")) {
  link.addEventListener("click", async (event) => {
    if (!token) return;
    event.preventDefault();
    const answer = await ask(link.getAttribute("href"));
    if (!answer.ok) return;
    const file = document.createElement("a");
    file.href = URL.createObjectURL(await answer.blob());
    file.download = link.textContent;
    file.click();
    setTimeout(() => URL.revokeObjectURL(file.href), 60000);
  });
}

// A page that is not seen needs no connection: browsers have only six for a server.
function connectIfSeen() {
  if (!document.hidden) { connect(); return; }
  clearTimeout(again);
  stream?.abort();
  stream = null;
}
document.addEventListener("visibilitychange", connectIfSeen);
window.addEventListener("hashchange", () => { if (takeToken()) connectIfSeen(); });
takeToken();
connectIfSeen();
