"use strict";
// Sliders over the codes of filtering/page/edges.py: every sample of the page is judged at each move.
(() => {
  const studio = wdsflow.data.studio;
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const unpack = (text, bits) => (bits === 8 ? bytes(text) : new Uint16Array(bytes(text).buffer));
  const whole = (number) => number.toLocaleString("en-US");
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const find = (id) => document.getElementById(id);
  // An edge for people: the command has all digits of a threshold that the run's own predicate gave
  const brief = (edge) => (edge.length <= 9 ? edge : wdsflow.brief(Number(edge), 9));
  const rest = studio.rest && bytes(studio.rest.results);
  const group = new Int32Array(studio.twins.length ? studio.rows : 0), follows = new Uint8Array(group.length);
  for (const [row, number, after] of studio.twins) { group[row] = number; follows[row] = after; }
  const restBox = find("rest"), comparedBox = find("compared");

  const scores = studio.scores.map((score, number) => {
    const section = document.querySelector(`[data-score="${number}"]`);
    const low = unpack(score.low, score.bits);
    const special = score.bits === 8 ? 255 : 65535;
    const last = score.edges.length; // of "at least": position 0 is off, 1 the first edge; of "at most": the last is off
    const parts = {
      ...score, section, lowCodes: low, highCodes: score.high ? unpack(score.high, score.bits) : low,
      unknown: special, pending: special - 1,
      lowInput: section.querySelector(".low"), highInput: section.querySelector(".high"),
      lowText: section.querySelector(".low-text"), highText: section.querySelector(".high-text"),
      near: section.querySelector(".near"), last,
    };
    parts.lowInput.max = parts.highInput.max = last;
    return parts;
  });

  const choices = studio.choices.map((choice, number) => ({
    ...choice, codes: unpack(choice.codes, choice.bits), boxes: [...document.querySelectorAll(`[data-choice="${number}"] input`)],
  }));

  function begin() {
    for (const choice of choices) choice.boxes.forEach((box, at) => { box.checked = choice.start[at]; });
    for (const score of scores) {
      score.lowInput.value = score.start.low ? score.start.low[0] + 1 : 0;
      score.highInput.value = score.start.high ? score.start.high[0] : score.last;
    }
    for (const box of [restBox, comparedBox]) if (box) box.checked = true;
  }

  // An end: the edge, and whether it is outside itself, which only the run's own predicate says.
  function end(score, which) {
    const position = Number(score[`${which}Input`].value);
    const index = which === "low" ? position - 1 : position;
    if (index < 0 || index >= score.last) return null;
    const start = score.start[which];
    return { index, strict: Boolean(start && start[0] === index && start[1]) };
  }

  function terms() {
    const found = [];
    for (const score of scores) {
      const low = end(score, "low"), high = end(score, "high");
      if (low) found.push(`${score.name} ${low.strict ? ">" : ">="} ${score.edges[low.index]}`);
      if (high) found.push(`${score.name} ${high.strict ? "<" : "<="} ${score.edges[high.index]}`);
    }
    for (const choice of choices) {
      const ticked = choice.literals.filter((_, at) => choice.boxes[at].checked);
      if (ticked.length === 1) found.push(ticked[0] === "True" ? choice.name : ticked[0] === "False" ? `not ${choice.name}` : `${choice.name} == ${ticked[0]}`);
      else if (ticked.length) found.push(`${choice.name} in (${ticked.join(", ")})`);
    }
    if (rest && restBox.checked) found.push(studio.rest.text);
    if (comparedBox && comparedBox.checked) found.push(studio.compared.text);
    return found;
  }

  function isAsRun() {
    const same = (score, which) => { const now = end(score, which), then = score.start[which]; return now ? then && now.index === then[0] : !then; };
    return choices.every((choice) => choice.boxes.every((box, at) => box.checked === choice.start[at])) && scores.every((score) => same(score, "low") && same(score, "high")) && (!restBox || restBox.checked);
  }

  // The conditions as functions of a row: 0 fails, 1 holds, 2 unknown, 3 not computed; `of` is the score of a slider.
  function tests() {
    const found = [];
    for (const score of scores) {
      const low = end(score, "low"), high = end(score, "high");
      if (!low && !high) continue;
      const least = low ? 2 * low.index + (low.strict ? 2 : 1) : 0;
      const most = high ? 2 * high.index + (high.strict ? 0 : 1) : Infinity;
      found.push({ of: score, result: (row) => {
        const code = score.lowCodes[row];
        return code === score.unknown ? 2 : code === score.pending ? 3 : code < least || score.highCodes[row] > most ? 0 : 1;
      } });
    }
    for (const choice of choices) {
      const ticked = choice.boxes.reduce((mask, box, at) => mask | (box.checked ? 1 << at : 0), 0);
      if (!ticked) continue;
      const values = choice.masks.map((mask) => mask & choice.pending ? 3 : mask & ~ticked & ~choice.unknown ? 0 : mask & choice.unknown ? 2 : 1);
      found.push({ result: (row) => values[choice.codes[row]] });
    }
    if (rest && restBox.checked) found.push({ result: (row) => rest[row] });
    return found;
  }

  const worst = (one, other) => (one === 0 || other === 0 ? 0 : Math.max(one, other));

  // As tests; and 4 for a sample that would follow one of the same key
  function judge(conditions) {
    const results = new Uint8Array(studio.rows).fill(1);
    for (const { result } of conditions) for (let row = 0; row < studio.rows; row += 1) results[row] = worst(results[row], result(row));
    for (let row = 0, before = -1; row < group.length; row += 1) {
      if (results[row] !== 1 && !(results[row] === 2 && studio.unknownKeeps)) continue;
      if (before >= 0 && group[row] && group[before] === group[row] && !(before === row - 1 && follows[row])) results[row] = 4;
      else before = row;
    }
    return results;
  }

  // What the other conditions do with the samples that are shown of a score
  function mark(score, conditions) {
    const others = conditions.filter(({ of }) => of !== score);
    for (const [row, place] of score.marks) {
      const result = others.reduce((before, { result: of }) => worst(before, of(row)), 1);
      place.textContent = ["dropped by another term", "", studio.unknownKeeps ? "" : "another term is unknown", "another score was not computed"][result];
    }
  }

  function gallery(title, listed, score) {
    const list = document.createElement("ul");
    list.className = "gallery";
    for (const [, , picture, value, row] of listed) {
      const shown = studio.pictures[picture];
      const item = document.createElement("li");
      const image = document.createElement(shown.image ? "img" : "div");
      if (shown.image) { image.src = shown.image; image.alt = shown.caption || shown.key; }
      else { image.className = "blank"; image.textContent = shown.trouble || "no image"; }
      const number = document.createElement("b");
      number.textContent = value;
      const text = document.createElement("p");
      text.textContent = shown.caption || shown.key;
      text.title = shown.key;
      const other = document.createElement("p");
      other.className = "other";
      score.marks.push([row, other]);
      item.append(image, number, other, text);
      list.append(item);
    }
    const head = document.createElement("p");
    head.className = "dim";
    head.textContent = title;
    return listed.length ? [head, list] : [];
  }

  function showNear(score) {
    const low = end(score, "low"), high = end(score, "high");
    const all = score.pictures, few = 6;
    const parts = [];
    score.marks = [];
    if (!low && !high) parts.push(...gallery("lowest", all.slice(0, few), score), ...gallery("highest", all.slice(few).slice(-few).reverse(), score));
    for (const [which, limit] of [["low", low], ["high", high]]) {
      if (!limit) continue;
      const edge = 2 * limit.index + 1;
      const beyond = (code) => (which === "low" ? code > edge : code < edge) || (code === edge && !limit.strict);
      const place = which === "low" ? 0 : 1;
      const sorted = [...all].sort((one, other) => one[place] - other[place]);
      const kept = sorted.filter((each) => beyond(each[place])), cut = sorted.filter((each) => !beyond(each[place]));
      const near = which === "low" ? [kept.slice(0, few), cut.slice(-few)] : [kept.slice(-few), cut.slice(0, few)];
      const sides = which === "low" ? ["above", "below"] : ["below", "above"];
      const codes = which === "low" ? score.lowCodes : score.highCodes;
      near.forEach((listed, side) => {
        // Samples between the cut and the farthest of these that have no picture here
        const own = listed.map((each) => each[place]), least = Math.min(...own), most = Math.max(...own);
        let nearer = 0;
        for (const code of codes) if (code < score.pending && beyond(code) === (side === 0) && (sides[side] === "above" ? code < most : code > least)) nearer += 1;
        const missing = nearer - own.filter((code) => (sides[side] === "above" ? code < most : code > least)).length;
        const title = missing ? `${sides[side]} the cut, ${whole(missing)} nearer sample${missing === 1 ? " is" : "s are"} not shown` : `just ${sides[side]} the cut`;
        parts.push(...gallery(`${title}: ${side ? "dropped" : "kept by this term"}`, listed, score));
      });
    }
    score.near.replaceChildren(...parts);
  }

  function show(only) {
    const conditions = tests(), results = judge(conditions);
    const counts = [0, 0, 0, 0, 0];
    for (const result of results) counts[result] += 1;
    const comparing = comparedBox && comparedBox.checked, known = comparing && isAsRun();
    const kept = known ? studio.compared.kept : counts[1] + (studio.unknownKeeps ? counts[2] : 0) + (comparing ? counts[3] : 0);
    const all = studio.drawn === studio.total;
    const scaled = all ? kept : Math.round(kept * studio.total / Math.max(studio.drawn, 1));
    const bound = known ? "" : comparing ? "at most " : counts[3] ? "at least " : "";
    find("kept").textContent = known ? `${whole(kept)} kept` : `${bound}${all ? "" : "about "}${whole(scaled)} kept`;
    find("kept").dataset.count = kept;
    const unknown = studio.unknownKeeps ? 0 : counts[2];
    find("share").textContent = `of ${whole(studio.total)} sample${studio.total === 1 ? "" : "s"} (${(100 * kept / Math.max(studio.drawn, 1)).toFixed(1)} %)`
      + (unknown ? `; ${whole(unknown)} unknown${all ? "" : " of those drawn"}` : "")
      + (counts[4] && !known ? `; ${whole(counts[4])} quarantined: same-key` : "");
    const found = terms();
    find("command").textContent = found.length ? studio.command.filter + quoted(found.join(" and ")) : "move a slider or tick a value to get a command";
    const note = find("pending");
    note.hidden = !counts[3];
    note.textContent = counts[3] ? `${whole(counts[3])} samples were dropped before these scores were computed. Compute them for all samples, then look at that page: ${studio.command.measure} --scores ${quoted(scores.filter((score) => end(score, "low") || end(score, "high")).map((score) => score.name).join(","))}` : "";
    for (const score of scores) {
      const low = end(score, "low"), high = end(score, "high");
      score.lowText.textContent = low ? `${low.strict ? ">" : "≥"} ${brief(score.edges[low.index])}` : "off";
      score.highText.textContent = high ? `${high.strict ? "<" : "≤"} ${brief(score.edges[high.index])}` : "off";
      score.lowInput.setAttribute("aria-valuetext", score.lowText.textContent);
      score.highInput.setAttribute("aria-valuetext", score.highText.textContent);
      if (!only || only === score) { showNear(score); score.redraw(); }
      mark(score, conditions);
    }
  }

  begin();
  for (const score of scores) {
    score.redraw = wdsflow.histogram(score.section.querySelector(".plot"), score.chart, () =>
      ["low", "high"].map((which) => end(score, which)).filter(Boolean).map((limit) => [Number(score.edges[limit.index]), "--bad"]));
    for (const input of [score.lowInput, score.highInput]) input.addEventListener("input", () => show(score));
  }
  for (const choice of choices) for (const box of choice.boxes) box.addEventListener("change", () => show({}));
  for (const box of [restBox, comparedBox]) if (box) box.addEventListener("change", () => show());
  find("reset").addEventListener("click", () => { begin(); show(); });
  const copying = (id, text) => find(id).addEventListener("click", async () => {
    const label = find(id).textContent;
    await wdsflow.copy(text());
    find(id).textContent = "Copied";
    setTimeout(() => { find(id).textContent = label; }, 1500);
  });
  copying("copy", () => find("command").textContent);
  copying("copy-where", () => terms().join(" and "));
  show();
})();
