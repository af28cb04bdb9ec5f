// The words: the verdict on an order, and the steps of its key's life.

const maxSteps = 16;

export const euros = (cents) => "€ " + (cents / 100).toFixed(2);

// judge returns a tone, a headline and an explanation.
export function judge(order, busy, lease) {
  const { requests, charges, keyless } = order;
  const count = (what) => order.notices.filter((n) => n.what === what).length;
  if (charges > 1) {
    return ["bad", charges === 2 ? "Charged twice" : `Charged ${charges} times`,
      `The customer pays ${euros(order.paid)} for an order of ${euros(order.amount)}.` +
      (keyless ? " Without a key, every request is a new payment." : "")];
  }
  if (!requests) return ["calm", "Nothing is charged yet", "Pay, pay twice, or break something. Each request and its effects are drawn here as they happen."];
  if (busy) {
    if (count("killed") && !count("started") && !count("lease_expired") && !keyless) {
      return ["calm", "The pod is dead, the key is not", `No pod may run it before the lease ends: ${lease / 1000} seconds here. The client keeps retrying.`];
    }
    return charges ? ["calm", "Charged. Does the browser know?", "The client retries until a response arrives."] : ["calm", "Paying …", "A pod runs the handler. The bank takes its time."];
  }
  if (charges === 0) return ["calm", "Not charged", "No request got through."];
  if (keyless && requests > 1) return ["calm", "Charged once, by luck", "The pod died before the charge. Try the same without a key, but kill it after."];
  if (requests === 1) return ["good", "Charged once", keyless ? "One request, and nothing broke. Now click twice." : "One request, one charge. Now send it again: the key is the same."];
  return ["good", "Charged once", `${requests} requests, one charge. ${reason(order, count)}`];
}

function reason(order, count) {
  if (count("key_reused")) return "The key belongs to the first amount. Another amount gets 422, and does not run.";
  if (count("recognised")) return "Attempt 2 handed the bank the same derived key, and the bank knew it.";
  if (count("lease_expired")) return "The other pod took the key over when the lease had ended.";
  const replays = count("replay");
  return replays === 1 ? "The later request got the stored response." : `${replays} later requests got the stored response.`;
}

const steps = {
  execute: (n) => (n.attempt > 1 ? ["taken-over", `taken over: attempt ${n.attempt}`, "flight"] : ["first-time", "first time: in flight", "flight"]),
  no_key: () => ["no-key", "no key: runs", "bad"],
  in_progress: () => ["in-progress", "409 in progress", "warn"],
  key_reused: () => ["reused", "422 another payload", "warn"],
  charged: (n, order) => ["charged", "charged", order.charges > 1 ? "bad" : ""],
  recognised: () => ["recognised", "bank knows it", "good"],
  completed: () => ["completed", "completed", "good"],
  replay: () => ["replay", "replay", "good"],
  no_response: () => ["no-response", "no response", "bad"],
  killed: (n) => ["killed", `pod ${n.pod} killed`, "bad"],
  retried: () => ["retried", "retried", ""],
  lease_expired: () => ["expired", "lease expired", "warn"],
};

// Steps that many requests repeat. Equal ones are one step, unless the key has changed in between.
const repeated = new Set(["no-key", "in-progress", "reused", "charged", "replay", "no-response", "retried"]);

// life returns the steps of the key's life, at most maxSteps: the first of each state, and the newest.
export function life(order) {
  const start = order.notices[0]?.at ?? 0, all = [];
  let since = 0; // the first step after the key's last change
  for (const n of order.notices.filter((n) => steps[n.what])) {
    const [state, text, tone] = steps[n.what](n, order);
    const equal = repeated.has(state) && all.slice(since).find((step) => step.state === state);
    if (equal) {
      equal.times++;
      continue;
    }
    if (!repeated.has(state)) since = all.length + 1;
    all.push({ state, tone, text, times: 1, at: (Math.max(0, n.at - start) / 1000).toFixed(1) });
  }
  const spare = all.filter((step) => all.find((first) => first.state === step.state) !== step);
  const left = new Set(spare.slice(0, Math.max(0, all.length - maxSteps)));
  return all.filter((step) => !left.has(step)).map((step) => ({ ...step, text: step.times > 1 ? `${step.text} × ${step.times}` : step.text }));
}
