// once sends a request until its outcome is known. Make the key before the first call, and keep it with the order.
async function once(url, order, key) {
  const body = JSON.stringify(order); // the same bytes in every attempt
  for (let attempt = 1; ; attempt++) {
    let wait = 500 * 2 ** attempt * (0.5 + Math.random());
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": key },
        body,
        signal: AbortSignal.timeout(30_000),
      });
      const text = await response.text(); // fails if the response is cut off: the next attempt gets a replay
      const after = response.headers.get("Retry-After");
      const isReplay = response.headers.get("X-Idempotent-Replay") === "true"; // a stored response: final, also a 500
      const temporary = response.status === 409 ? after !== null : [425, 429, 500, 502, 503, 504].includes(response.status);
      if (isReplay || !temporary || attempt === 8) return { status: response.status, isReplay, text };
      wait = Math.max(wait, 1000 * (Number(after) || 0));
    } catch (error) {
      if (attempt === 8) throw error; // the outcome is not known: keep the key, and call again later
    }
    await new Promise((resume) => setTimeout(resume, wait));
  }
}

// newKey makes a UUID of version 7: its time lets the service refuse late retries.
function newKey() {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
