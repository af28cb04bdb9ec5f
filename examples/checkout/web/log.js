// The two lists: the requests, each with its HTTP exchange, and the bank's charges.
import { euros } from "/words.js";

const maxRows = 40; // a list grows no longer
const short = 5; // rows that are shown before the reader asks for all
const $ = (id) => document.getElementById(id);

// addRequest adds a row that opens into the request, and later the response.
export function addRequest(number, text, sent) {
  const row = document.createElement("li"), details = document.createElement("details"), summary = document.createElement("summary");
  row.dataset.request = number;
  details.name = "exchange"; // of which one is open
  summary.append(span("number", number), span("status", "sent"), span("note", text));
  details.append(summary, exchange(sent));
  row.append(details);
  prepend("log", row);
  return row;
}

// finish shows the outcome. A request without a response has no received.
export function finish(row, status, tone, text, received) {
  row.querySelector(".status").textContent = status;
  row.querySelector(".status").dataset.tone = tone;
  row.querySelector(".note").textContent = text;
  row.querySelector(".received").textContent = received ? responseText(received) : "The connection closed before a response arrived.";
}

export function addCharge(charge, isAnother) {
  const row = document.createElement("li");
  const note = span("note", `Order ${charge.order}, pod ${charge.pod}` + (charge.attempt > 1 ? `, attempt ${charge.attempt}` : ""));
  if (isAnother) note.append(" ", span("twice", "again!"));
  row.append(span("number", charge.number), note, span("status", euros(charge.amount)));
  prepend("ledger", row);
}

export function clearLists() {
  for (const list of ["log", "ledger"]) {
    $(list).replaceChildren();
    fold(list);
  }
  $("life").replaceChildren();
}

function prepend(list, row) {
  $(list).prepend(row);
  while ($(list).children.length > maxRows) $(list).lastChild.remove();
  fold(list);
}

function fold(list) {
  const more = $(`${list}-more`), rows = $(list).children.length, all = $(list).classList.contains("all");
  more.hidden = rows <= short;
  more.textContent = all ? "Show fewer" : `Show ${rows - short} more`;
  more.setAttribute("aria-expanded", all);
  [...$(list).children].forEach((row, i) => { row.hidden = !all && i >= short; });
}

for (const list of ["log", "ledger"]) {
  $(`${list}-more`).addEventListener("click", () => {
    $(list).classList.toggle("all");
    fold(list);
  });
}

// ---- The HTTP exchange

function exchange(sent) {
  const box = document.createElement("div");
  box.className = "exchange";
  const request = block("Request", requestText(sent), "sent"), response = block("Response", "…", "received");
  box.append(...request, ...response);
  if (navigator.clipboard) {
    const copies = document.createElement("p");
    copies.append(
      copier("Copy", () => `${request[1].textContent}\n\n${response[1].textContent}\n`),
      copier("Copy as curl", () => curl(sent)),
    );
    box.append(copies);
  }
  return box;
}

function block(title, text, kind) {
  const heading = document.createElement("h3"), pre = document.createElement("pre");
  heading.textContent = title;
  pre.className = kind;
  pre.textContent = text;
  return [heading, pre];
}

function copier(label, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.textContent = label;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

// The browser adds more header fields, such as User-Agent. A retry does not need them.
const requestText = ({ method, path, headers, body }) =>
  [`${method} ${path} HTTP/1.1`, `Host: ${location.host}`, ...fields(Object.entries(headers)), "", body].join("\n");

const responseText = ({ status, reason, headers, body }) =>
  [`HTTP/1.1 ${status} ${reason}`, ...fields([...headers]), "", body.trimEnd()].join("\n");

// fetch gives the names in lower case. HTTP ignores the case, and readers know the usual one.
const fields = (pairs) => pairs.map(([name, value]) => `${name.replace(/(^|-)[a-z]/g, (c) => c.toUpperCase())}: ${value}`);

const curl = ({ path, headers, body }) =>
  ["curl -i", ...Object.entries(headers).filter(([name]) => !name.startsWith("Demo-")).map(([name, value]) => `-H '${name}: ${value}'`),
    `-d '${body}'`, location.origin + path].join(" \\\n  ");

function span(kind, text) {
  const s = document.createElement("span");
  s.className = kind;
  s.textContent = text;
  return s;
}
