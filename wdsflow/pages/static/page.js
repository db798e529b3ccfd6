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

  const drawn = [];

  // Draw a histogram: `lefts` and `counts` of equal bars of `width`; `marks()` gives lines to draw, [value, colour].
  function histogram(place, chart, marks) {
    const lines = marks || (() => (chart.marks || []).map((at) => [at, "--bad"]));
    const draw = () => {
      place.replaceChildren();
      const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const plot = new uPlot({
        width: Math.max(place.clientWidth, 200), height: 150, cursor: { show: false }, legend: { show: false },
        scales: { x: { time: false, range: [chart.lefts[0], chart.lefts[chart.lefts.length - 1] + chart.width] },
          y: { range: (self, least, most) => [0, most * 1.05 || 1] } }, // bars of a tenth less look a tenth lower
        axes: [axis, { ...axis, size: 60 }],
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
    drawn.push(draw);
    return () => place._redraw();
  }

  for (const place of document.querySelectorAll(".plot[data-chart]")) histogram(place, data.charts[place.dataset.chart]);
  const again = () => drawn.forEach((draw) => draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 150); });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  return { data, copy, histogram };
})();
