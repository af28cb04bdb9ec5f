// The page: a shopper's client, and the shop's notices. words.js puts them into
// words, log.js lists the requests, draw.js draws, and view.js writes the rest.
import { draw } from "/draw.js";
import { addCharge, addRequest, clearLists, finish } from "/log.js";
import { say, showLegend, showLife } from "/view.js";
import { judge, life } from "/words.js";

const amount = 3200, otherAmount = 1000; // cents
const maxTries = 10, maxNotices = 400; // nothing here grows for ever
const pause = 750; // milliseconds before a retry, unless the response names another time
const often = 100, seldom = 1000; // milliseconds between two questions to the shop
const patience = 5000; // milliseconds until a shop that does not respond is lost
const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let shop; // the open shop
let trouble = null; // why there is none, or why it is out of reach: a headline and an explanation

const lost = ["The shop is closed", "The program has ended, or the connection broke. This page tries again every second."];

function newShop({ shop: id, lease }) {
  return {
    id, lease, requests: 0, orderNumber: 1000, order: null, byRequest: new Map(), busy: 0,
    next: 0, ahead: Infinity, stopped: null, waiting: [], pods: { A: "running", B: "running" },
  };
}

// An order is one intent to pay: it has one key, however often it is sent.
function newOrder() {
  shop.orderNumber++;
  shop.order = { number: String(shop.orderNumber), key: crypto.randomUUID(), amount, notices: [], requests: 0, charges: 0, paid: 0, keyless: 0 };
  shop.byRequest.clear();
  $("order").textContent = shop.order.number;
  showKey();
  render();
}

// An order that was never sent is still new.
function freshOrder() {
  if (shop.order.requests) newOrder();
  else showKey();
}

function showKey() {
  const on = $("with-key").checked;
  $("key").textContent = on ? shop?.order?.key ?? "…" : "no key is sent";
  $("key").classList.toggle("off", !on);
  $("copy-key").hidden = !on || !navigator.clipboard;
  $("hint").textContent = on ? "Go on, click it twice. One order is one key." : "Go on, click it twice. Each click pays.";
}

// ---- The shopper's client

// pay sends the order until a response arrives, as a client that means well does.
async function pay({ fault = "", cents = amount } = {}) {
  const at = shop, order = at.order, key = $("with-key").checked ? order.key : "";
  setBusy(at, +1);
  try {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      while (trouble && at === shop) await hearMore(at);
      if (at !== shop) return;
      const wait = await send(at, order, { key, cents, fault: attempt === 1 ? fault : "", isRetry: attempt > 1 });
      if (wait === 0) return;
      await sleep(wait);
    }
  } finally {
    if (at === shop) await hearMore(at);
    setBusy(at, -1);
  }
}

// send makes one request and returns how long to wait before the next, or 0.
async function send(at, order, { key, cents, fault, isRetry }) {
  const number = ++at.requests;
  order.requests++;
  if (!key) order.keyless++;
  at.byRequest.set(number, order);
  if (isRetry) note(at, order, { what: "retried", at: clock(at), request: number });
  render();
  const headers = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  headers["Demo-Request"] = String(number);
  if (fault) headers["Demo-Fault"] = fault;
  const sent = { method: "POST", path: `/shops/${at.id}/payments`, headers, body: JSON.stringify({ order: order.number, amount: cents }) };
  const row = addRequest(number, `POST ${isRetry ? "again, " : ""}${key ? "with the key" : "without a key"}`, sent);
  try {
    const response = await fetch(sent.path, { method: sent.method, headers, body: sent.body });
    const body = await response.text();
    return read(row, { status: response.status, reason: response.statusText, headers: response.headers, body });
  } catch {
    finish(row, "no response", "bad", "Was it charged? A retry tells.", null);
    return pause;
  }
}

// read shows the response, and returns how long to wait before a retry, or 0.
function read(row, received) {
  const { status, headers } = received;
  const reply = JSON.parse(received.body);
  const show = (text, tone, note) => finish(row, text, tone, note, received);
  if (headers.get("X-Idempotent-Replay") === "true") show(`${status} replay`, "good", `The stored response: charge ${reply.number}.`);
  else if (status === 201) show("201 Created", "good", `Charge ${reply.number}, by pod ${reply.pod}.`);
  else if (reply.code === "in_progress") show("409 in progress", "warn", "Not finished yet. Retry in a second.");
  else if (reply.code === "key_reused") show("422 another payload", "warn", `Differs: ${reply.differs.join(", ")}. It did not run.`);
  else if (status === 503) show("503 unavailable", "bad", "Both pods are down. Retry in a second.");
  else show(`${status} ${received.reason}`, "bad", reply.error ?? "");
  const again = Number(headers.get("Retry-After"));
  return (status === 409 || status === 503) && again > 0 ? Math.min(again, 5) * 1000 : 0;
}

const scenarios = {
  "double-click": () => Promise.all([pay(), sleep(150).then(() => pay())]),
  "drop-response": () => pay({ fault: "drop-response" }),
  "kill-before-charge": () => pay({ fault: "kill-before-charge" }),
  "kill-after-charge": () => pay({ fault: "kill-after-charge" }),
  "change-amount": () => pay().then(() => pay({ cents: otherAmount })),
};

// ---- The shop's notices

// open leaves the shop and opens another one, as soon as there is room.
let openings = 0;
async function open() {
  const opening = ++openings;
  leave();
  for (; ; await sleep(seldom)) {
    try {
      const response = await fetch("/shops", { method: "POST", signal: AbortSignal.timeout(patience) });
      const reply = await response.json();
      if (opening !== openings) return response.ok ? close(reply.shop) : undefined;
      if (response.ok) return enter(newShop(reply));
      setTrouble(["There is no room for another shop", `${reply.error}. This page tries again every second.`]);
    } catch {
      if (opening === openings) setTrouble(lost);
    }
    if (opening !== openings) return;
  }
}

const close = (id) => fetch(`/shops/${id}`, { method: "DELETE", keepalive: true }).catch(() => {}); // else the shop closes by itself

function leave() {
  if (shop) close(shop.id);
  shop = undefined;
  enable(false);
}

function enter(opened) {
  shop = opened;
  clearLists();
  document.body.dataset.shop = shop.id;
  $("lease").textContent = shop.lease / 1000;
  $("inspector").href = `/shops/${shop.id}/inspector/`;
  newOrder();
  setTrouble(null);
  setBusy(shop, 0);
  follow(shop);
}

// follow asks the shop for its notices until the page leaves the shop.
async function follow(at) {
  while (at === shop) {
    const waiting = at.waiting.splice(0);
    try {
      const response = await fetch(`/shops/${at.id}/notices?after=${at.next}`, { signal: AbortSignal.timeout(patience) });
      const told = response.ok ? await response.json() : null;
      if (at !== shop) return;
      if (!told) return open(); // the program has started anew, or this page slept for long
      hear(at, told);
      if (trouble) setTrouble(null);
    } catch {
      if (at === shop) setTrouble(lost);
    }
    for (const resolve of waiting) resolve();
    if (trouble || !at.waiting.length) await new Promise((resolve) => { at.wake = trouble ? null : resolve; setTimeout(resolve, at.busy && !trouble ? often : seldom); });
  }
}

// hearMore waits for the response to the next question to the shop.
function hearMore(at) {
  return new Promise((resolve) => { at.waiting.push(resolve); at.wake?.(); });
}

function hear(at, { now, next, notices }) {
  at.next = next;
  at.ahead = Math.min(at.ahead, performance.now() - now); // the smallest delay gives the best clock
  for (const notice of notices) {
    if (notice.what === "killed" || notice.what === "started") at.pods[notice.pod] = notice.what === "started" ? "running" : "killed";
    const order = at.byRequest.get(notice.request) ?? (notice.request ? null : at.order);
    if (order) note(at, order, notice);
  }
  showPods();
}

// clock is the server's time, in its milliseconds.
const clock = (at) => (at.ahead === Infinity ? 0 : Math.max(0, performance.now() - at.ahead));

function note(at, order, notice) {
  order.notices.push(notice);
  if (order.notices.length > maxNotices) forget(order);
  if (notice.what === "charged") {
    order.charges++;
    order.paid += notice.charge.amount;
    addCharge(notice.charge, order.charges > 1);
  }
  if (at === shop) render();
}

// forget removes the oldest replayed request. The first request and the key's story stay.
function forget(order) {
  const replayed = order.notices.find((n) => n.what === "replay");
  if (replayed) order.notices = order.notices.filter((n) => n.request !== replayed.request);
  else order.notices.splice(maxNotices / 2, 1);
}

// ---- The shopper's view

function setTrouble(now) {
  trouble = now;
  if (shop) shop.stopped = now ? shop.stopped ?? clock(shop) : null;
  document.body.dataset.trouble = Boolean(now);
  enable(!now);
  showPods();
  render();
}

function showPods() {
  for (const pod of document.querySelectorAll(".pod")) {
    pod.dataset.state = trouble || !shop ? "unknown" : shop.pods[pod.dataset.pod];
    pod.querySelector("b").textContent = pod.dataset.state;
  }
}

let asked = false;
function render() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (trouble) say("calm", ...trouble);
    if (!shop?.order) return;
    const { order, busy } = shop;
    $("charges").textContent = order.charges;
    $("charges-word").textContent = order.charges === 1 ? "charge" : "charges";
    if (!trouble) say(...judge(order, busy > 0, shop.lease));
    showLife(life(order));
    redraw();
  });
}

function redraw() {
  const now = shop.busy > 0 ? shop.stopped ?? clock(shop) : null;
  showLegend(draw($("drawing"), shop.order.notices, now, shop.stopped !== null));
}

// While a payment is under way the drawing moves, unless the reader wants no motion.
function tick() {
  if (!shop?.busy || calm.matches) return;
  if (!trouble) redraw();
  requestAnimationFrame(tick);
}

function setBusy(at, by) {
  at.busy += by;
  if (at !== shop) return;
  document.body.dataset.busy = shop.busy > 0;
  enable(!trouble);
  render();
  at.wake?.();
  if (by > 0 && at.busy === 1) requestAnimationFrame(tick);
}

function enable(on) {
  for (const id of ["pay", "reset"]) $(id).disabled = !on;
  for (const control of document.querySelectorAll("[data-scenario], #new-order, #with-key")) control.disabled = !on || shop?.busy > 0;
}

$("pay").addEventListener("click", () => pay());
$("with-key").addEventListener("change", freshOrder);
$("new-order").addEventListener("click", newOrder);
$("reset").addEventListener("click", open);
$("copy-key").addEventListener("click", () => navigator.clipboard.writeText(shop.order.key));
for (const button of document.querySelectorAll("[data-scenario]")) {
  button.addEventListener("click", async () => {
    freshOrder();
    await scenarios[button.dataset.scenario]();
    if (document.activeElement === document.body) button.focus(); // being disabled has cost it the focus
  });
}
addEventListener("resize", render);
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => event.persisted && open());
open();
