"use strict";
// Copy buttons, and histograms drawn by uPlot. Works from a file on disk, without a network.
const wdsflow = (() => {
  const holder = document.getElementById("data");
  const data = holder ? JSON.parse(holder.textContent) : {};
  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea"); // where a browser has no clipboard for pages on disk
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // A number with some digits, in the shorter of two notations
  function brief(value, digits) {
    const plain = value.toLocaleString("en-US", { maximumSignificantDigits: digits });
    const exponent = Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
    return plain.length <= Math.max(exponent.length, 7) ? plain : exponent;
  }

  // Labels of an axis: as many digits as its steps need
  function labels(self, splits) {
    const step = splits.length > 1 ? Math.abs(splits[1] - splits[0]) : 1;
    return splits.map((split) => {
      if (Math.abs(split) < step / 2) return "0";
      return brief(split, Math.min(Math.max(Math.ceil(Math.log10(Math.abs(split) / step) + 1e-9) + 1, 1), 15));
    });
  }

  const places = [];

  // Draw a histogram: `lefts` and `counts` of equal bars of `width`; `marks()` gives lines to draw, [value, colour].
  function histogram(place, chart, marks) {
    const lines = marks || (() => (chart.marks || []).map((at) => [at, "--bad"]));
    const draw = () => {
      place.replaceChildren();
      const axis = { values: labels, space: 70, stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const plot = new uPlot({
        width: Math.max(place.clientWidth, 120), height: 150, cursor: { show: false }, legend: { show: false },
        scales: { x: { time: false, range: [chart.lefts[0], chart.lefts[chart.lefts.length - 1] + chart.width] },
          y: { range: (self, least, most) => [0, most * 1.05 || 1] } }, // bars of a tenth less look a tenth lower
        axes: [axis, { ...axis, space: 30, size: 60 }],
        series: [{}, { fill: colour("--blue"), stroke: colour("--blue"), width: 0, points: { show: false },
          paths: uPlot.paths.bars({ size: [0.92, 200], align: 1 }) }],
        hooks: { draw: [(self) => {
          for (const [at, name] of lines()) {
            const x = Math.round(self.valToPos(at, "x", true));
            self.ctx.save();
            self.ctx.strokeStyle = colour(name);
            self.ctx.lineWidth = 2 * devicePixelRatio;
            self.ctx.beginPath();
            self.ctx.moveTo(x, self.bbox.top);
            self.ctx.lineTo(x, self.bbox.top + self.bbox.height);
            self.ctx.stroke();
            self.ctx.restore();
          }
        }] },
      }, [chart.lefts, chart.counts], place);
      place._redraw = () => plot.redraw(false);
    };
    draw();
    let width = place.clientWidth;
    // Also where a scrollbar appears, or a narrow window lays the page out twice
    new ResizeObserver(() => { if (place.clientWidth !== width) { width = place.clientWidth; draw(); } }).observe(place);
    places.push(draw);
    return () => place._redraw();
  }

  for (const place of document.querySelectorAll(".plot[data-chart]")) histogram(place, data.charts[place.dataset.chart]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach((draw) => draw()));
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  return { data, copy, histogram, brief };
})();
