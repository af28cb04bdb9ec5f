// The parts of the page that follow the state: the verdict, the steps, and the legend.

const $ = (id) => document.getElementById(id);

export function say(tone, headline, explanation) {
  $("verdict").dataset.tone = tone;
  for (const [id, text] of [["headline", headline], ["explanation", explanation]]) {
    if ($(id).textContent !== text) $(id).textContent = text; // a repeated status would be read out again
  }
}

export function showLife(steps) {
  $("life").replaceChildren(...steps.map(({ state, tone, at, text }) => {
    const step = document.createElement("li"), time = document.createElement("time");
    step.dataset.state = state;
    if (tone) step.dataset.tone = tone;
    time.textContent = at;
    step.append(time, text);
    return step;
  }));
  $("drawing").setAttribute("aria-label", steps.length ? "A timeline of the steps listed below." : "Nothing has happened yet.");
}

// showLegend explains the kinds of bars that have no room for words.
export function showLegend(kinds) {
  if ($("legend").dataset.kinds === kinds.join()) return;
  $("legend").dataset.kinds = kinds.join();
  $("legend").replaceChildren(...kinds.map(([kind, text]) => {
    const entry = document.createElement("li");
    entry.dataset.kind = kind;
    entry.textContent = text;
    return entry;
  }));
}
