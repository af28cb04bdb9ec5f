// The page: a shopper who retries, and what he sees. draw.js draws.
import { draw } from "/draw.js";

const amount = 3200;
const maxTries = 10, maxRows = 40, maxNotices = 400; // nothing here grows for ever
const pause = 750; // before a retry, in milliseconds, unless the response names another
const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let shop; // what the open event stream is about
let stream;

function newShop(id, lease) {
  return { id, lease, requests: 0, orderNumber: 1000, order: null, byRequest: new Map(), busy: 0, ahead: Infinity };
}

// An order is one intent to pay: it has one key, however often it is sent.
function newOrder() {
  shop.orderNumber++;
  shop.order = { number: String(shop.orderNumber), key: crypto.randomUUID(), notices: [], requests: 0, charges: 0, keyless: 0, downs: {} };
  shop.byRequest.clear();
  $("order").textContent = shop.order.number;
  showKey();
  render();
}

function showKey() {
  const on = $("with-key").checked;
  $("key").textContent = on ? shop?.order?.key ?? "…" : "no key is sent";
  $("key").classList.toggle("off", !on);
}

// ---- The shopper's client

// pay sends the order until it has a response, as a client that means well does.
async function pay(fault = "") {
  const at = shop, order = at.order, key = $("with-key").checked ? order.key : "";
  setBusy(at, +1);
  try {
    for (let attempt = 1; attempt <= maxTries && at === shop; attempt++) {
      const wait = await send(at, order, key, attempt === 1 ? fault : "", attempt > 1);
      if (wait === 0) return;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  } finally {
    setBusy(at, -1);
  }
}

// send makes one request and returns how long to wait before the next, or 0.
async function send(at, order, key, fault, isRetry) {
  const number = ++at.requests;
  order.requests++;
  if (!key) order.keyless++;
  at.byRequest.set(number, order);
  if (isRetry) note(at, order, { what: "retried", at: clock(at), request: number });
  const row = logRow(number, isRetry ? "again, " + withOrWithout(key) : withOrWithout(key));
  render();
  const headers = { "Content-Type": "application/json", "Demo-Request": String(number) };
  if (key) headers["Idempotency-Key"] = key;
  if (fault) headers["Demo-Fault"] = fault;
  try {
    const body = JSON.stringify({ order: order.number, amount });
    const response = await fetch(`/shops/${at.id}/payments`, { method: "POST", headers, body });
    const receipt = await response.json();
    return read(row, response, receipt);
  } catch {
    finish(row, "no response", "bad", "The connection broke. Was it charged?");
    return pause;
  }
}

const withOrWithout = (key) => (key ? "with the key" : "without a key");

// read shows the response, and returns how long to wait before asking again, or 0.
function read(row, response, receipt) {
  const replay = response.headers.get("X-Idempotent-Replay") === "true";
  if (replay) finish(row, `${response.status} replay`, "good", `The stored response: charge ${receipt.number}.`);
  else if (response.ok) finish(row, `${response.status} Created`, "good", `Charge ${receipt.number}, by pod ${receipt.pod}.`);
  else if (receipt.code === "in_progress") finish(row, "409 in progress", "warn", "Not finished yet. Ask again in a second.");
  else finish(row, String(response.status), "bad", receipt.error ?? response.statusText);
  const again = Number(response.headers.get("Retry-After"));
  return (response.status === 409 || response.status === 503) && again > 0 ? Math.min(again, 5) * 1000 : 0;
}

const scenarios = {
  "double-click": () => Promise.all([pay(), new Promise((next) => setTimeout(next, 150)).then(() => pay())]),
  "drop-response": () => pay("drop-response"),
  "kill-before-charge": () => pay("kill-before-charge"),
  "kill-after-charge": () => pay("kill-after-charge"),
};

// ---- What the shop tells

function open() {
  stream?.close();
  stream = new EventSource("/events");
  stream.onmessage = (message) => hear(JSON.parse(message.data));
  stream.onerror = () => {
    enable(false);
    say("calm", "The shop is closed", "The program has ended or the connection broke. A new shop opens by itself when it is back.");
  };
}

function hear(notice) {
  if (notice.what === "opened") {
    shop = newShop(notice.shop, notice.lease);
    for (const list of ["log", "ledger", "life"]) $(list).replaceChildren();
    for (const name of ["A", "B"]) showPod(name, true);
    document.body.dataset.shop = shop.id;
    $("lease").textContent = notice.lease / 1000;
    newOrder();
    setBusy(shop, 0);
    enable(true);
    return;
  }
  shop.ahead = Math.min(shop.ahead, performance.now() - notice.at); // the stream's smallest delay is the best clock
  if (notice.what === "killed" || notice.what === "started") showPod(notice.pod, notice.what === "started");
  const order = shop.byRequest.get(notice.request) ?? (notice.request ? null : shop.order);
  if (order) note(shop, order, notice);
}

// clock is the server's time, in its milliseconds.
const clock = (at) => (at.ahead === Infinity ? 0 : Math.max(0, performance.now() - at.ahead));

function note(at, order, notice) {
  order.notices.push(notice);
  if (order.notices.length > maxNotices) order.notices.splice(0, 1);
  if (notice.what === "charged" || notice.what === "recognised") book(order, notice);
  if (at === shop) render();
}

function book(order, { what, charge }) {
  if (what === "recognised") return;
  order.charges++;
  const row = document.createElement("li");
  row.append(cell("number", charge.number));
  const text = cell("note", `Order ${charge.order}, pod ${charge.pod}` + (charge.attempt > 1 ? `, attempt ${charge.attempt}` : ""));
  if (order.charges > 1) text.append(" ", cell("twice", "again!"));
  row.append(text, cell("status", euros(charge.amount)));
  prepend("ledger", row);
}

const euros = (cents) => "€ " + (cents / 100).toFixed(2);

// ---- What the shopper sees

function showPod(name, runs) {
  const pod = document.querySelector(`.pod[data-pod=${name}]`);
  pod.classList.toggle("dead", !runs);
  pod.querySelector("b").textContent = runs ? "running" : "killed";
}

function logRow(number, text) {
  const row = document.createElement("li");
  row.dataset.request = number;
  row.append(cell("number", number), cell("status", "sent"), cell("note", `POST ${text}`));
  prepend("log", row);
  return row;
}

function finish(row, status, tone, text) {
  row.querySelector(".status").textContent = status;
  row.querySelector(".status").dataset.tone = tone;
  row.querySelector(".note").textContent = text;
}

function cell(kind, text) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}

function prepend(list, row) {
  $(list).prepend(row);
  while ($(list).children.length > maxRows) $(list).lastChild.remove();
}

function say(tone, headline, explanation) {
  $("verdict").dataset.tone = tone;
  for (const [id, text] of [["headline", headline], ["explanation", explanation]]) {
    if ($(id).textContent !== text) $(id).textContent = text; // a repeated status would be read out again
  }
}

function judge(order, busy) {
  const { requests, charges, keyless } = order;
  const sent = requests === 1 ? "1 request" : `${requests} requests`;
  const saw = (what) => order.notices.some((n) => n.what === what);
  if (charges > 1) {
    return ["bad", charges === 2 ? "Charged twice" : `Charged ${charges} times`,
      `The customer pays ${euros(charges * amount)} for an order of ${euros(amount)}. ` +
      (keyless ? "Without a key, nothing told the pods that it was the same payment." : "")];
  }
  if (busy || !requests) {
    if (!requests) return ["calm", "Nothing is charged yet", "Pay, pay twice, or break something. What each request did is drawn here as it happens."];
    if (saw("killed") && !saw("started") && !saw("lease_expired") && !keyless) return ["calm", "The pod is dead, the key is not", `No pod may run it before the lease ends: ${shop.lease / 1000} seconds here. The client keeps retrying.`];
    return charges ? ["calm", "Charged. Does the browser know?", "The client retries until a response arrives."] : ["calm", "Paying …", "A pod runs the handler. The bank takes its time."];
  }
  if (charges === 0) return ["calm", "Not charged", "No request got through."];
  if (keyless && requests > 1) return ["calm", "Charged once, by luck", "The pod died before the charge. Try the same without a key, but kill it after."];
  if (requests === 1) return ["good", "Charged once", keyless ? "One request, and nothing broke. Now click twice." : "One request, one charge. Now send it again: the key is the same."];
  if (saw("recognised")) return ["good", "Charged once", `${sent}, one charge. Attempt 2 handed the bank the same derived key, and the bank knew it.`];
  if (saw("lease_expired")) return ["good", "Charged once", `${sent}, one charge. The other pod took the key over when the lease had run out.`];
  return ["good", "Charged once", `${sent}, one charge. The others got the stored response.`];
}

const steps = {
  execute: (n) => (n.attempt > 1 ? ["taken-over", `taken over: attempt ${n.attempt}`, "flight"] : ["first-time", "first time: in flight", "flight"]),
  no_key: () => ["no-key", "no key: runs", "bad"],
  in_progress: () => ["in-progress", "409 in progress", "warn"],
  charged: (n, order) => ["charged", "charged", order.charges > 1 ? "bad" : ""],
  recognised: () => ["recognised", "bank knows it", "good"],
  completed: () => ["completed", "completed", "good"],
  replay: () => ["replay", "replay", "good"],
  no_response: () => ["no-response", "no response", "bad"],
  killed: (n) => ["killed", `pod ${n.pod} killed`, "bad"],
  retried: () => ["retried", "retried", ""],
  lease_expired: () => ["expired", "lease expired", "warn"],
};

function showLife(order) {
  const start = order.notices[0]?.at ?? 0;
  const shown = order.notices.filter((n) => steps[n.what]).slice(-16);
  $("life").replaceChildren(...shown.map((n) => {
    const [state, text, tone] = steps[n.what](n, order);
    const step = document.createElement("li");
    step.dataset.state = state;
    if (tone) step.dataset.tone = tone;
    const time = document.createElement("time");
    time.textContent = (Math.max(0, n.at - start) / 1000).toFixed(1);
    step.append(time, text);
    return step;
  }));
  $("drawing").setAttribute("aria-label", shown.length ? "A timeline of the steps listed below." : "Nothing has happened yet.");
}

let asked = false;
function render() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const { order, busy } = shop;
    $("charges").textContent = order.charges;
    $("charges-word").textContent = order.charges === 1 ? "charge" : "charges";
    say(...judge(order, busy > 0));
    showLife(order);
    draw($("drawing"), order.notices, busy > 0 ? clock(shop) : null);
  });
}

// While something is under way the drawing moves, unless the reader wants no motion.
function tick() {
  if (shop?.busy && !calm.matches) {
    draw($("drawing"), shop.order.notices, clock(shop));
    requestAnimationFrame(tick);
  }
}

function setBusy(at, by) {
  at.busy += by;
  if (at !== shop) return;
  document.body.dataset.busy = shop.busy > 0;
  for (const button of document.querySelectorAll("[data-scenario], #new-order")) button.disabled = shop.busy > 0;
  $("with-key").disabled = shop.busy > 0;
  render();
  if (by > 0 && at.busy === 1) requestAnimationFrame(tick);
}

function enable(on) {
  for (const id of ["pay", "reset"]) $(id).disabled = !on;
  if (!on) for (const button of document.querySelectorAll("[data-scenario], #new-order")) button.disabled = true;
}

$("pay").addEventListener("click", () => pay());
$("with-key").addEventListener("change", () => { newOrder(); });
$("new-order").addEventListener("click", newOrder);
$("reset").addEventListener("click", open);
for (const button of document.querySelectorAll("[data-scenario]")) {
  button.addEventListener("click", async () => {
    newOrder();
    await scenarios[button.dataset.scenario]();
    if (document.activeElement === document.body) button.focus(); // being disabled has cost it the focus
  });
}
addEventListener("resize", () => shop && render());
open();
