"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const board = data.board, looks = Object.fromEntries(data.marks.map((look) => [look.key, look]));
  const [width, height] = board.size, margin = 4;
  const scale = 6;  // canvas pixels a millimetre
  const play = document.getElementById("play"), time = document.getElementById("time");
  const stepShown = document.getElementById("step"), episodes = document.getElementById("episode");
  const panels = data.methods.map(addPanel);
  let timer = null;

  function addPanel(method) {
    const box = document.createElement("div");
    const title = document.createElement("h3");
    title.textContent = method.name;
    const canvas = document.createElement("canvas");
    canvas.width = (width + 2 * margin) * scale;
    canvas.height = (height + 2 * margin) * scale;
    const status = document.createElement("p");
    status.className = "soft";
    box.append(title, canvas, status);
    document.querySelector("#player .boards").append(box);
    return { method, canvas, status };
  }

  // the board's y axis points up, the canvas's down
  const X = (x) => (x + margin) * scale, Y = (y) => (height - y + margin) * scale;

  function disc(pen, [x, y], radius, fill, stroke) {
    pen.beginPath();
    pen.arc(X(x), Y(y), radius * scale, 0, 2 * Math.PI);
    if (fill) { pen.fillStyle = fill; pen.fill(); }
    if (stroke) { pen.strokeStyle = stroke; pen.lineWidth = 2; pen.stroke(); }
  }

  function line(pen, points, colour, wide, dash) {
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(X(x), Y(y)) : pen.moveTo(X(x), Y(y))));
    pen.strokeStyle = colour; pen.lineWidth = wide; pen.setLineDash(dash || []);
    pen.stroke();
    pen.setLineDash([]);
  }

  // a white cross under a coloured one: upright where the outcome is inside the region, slanted where it is not
  function outcome(pen, [x, y], held) {
    const r = 1.2, arms = held ? [[[x - r, y], [x + r, y]], [[x, y - r], [x, y + r]]] : [[[x - r, y - r], [x + r, y + r]], [[x - r, y + r], [x + r, y - r]]];
    arms.forEach((arm) => line(pen, arm, "#ffffff", 7));
    arms.forEach((arm) => line(pen, arm, (held ? looks.inside : looks.outside).colour, 4));
  }

  function arrow(pen, [x0, y0], [x1, y1]) {
    const angle = Math.atan2(y1 - y0, x1 - x0), head = 1.6;
    if (Math.hypot(x1 - x0, y1 - y0) < 0.2) return;
    line(pen, [[x0, y0], [x1, y1]], looks.action.colour, 2);
    for (const turn of [2.7, -2.7]) line(pen, [[x1, y1], [x1 + head * Math.cos(angle + turn), y1 + head * Math.sin(angle + turn)]], looks.action.colour, 2);
  }

  function start(pen, [x, y]) {
    const r = 1.1, corners = [[x - r, y], [x, y + r], [x + r, y], [x, y - r]];
    pen.beginPath();
    corners.forEach(([a, b], i) => (i ? pen.lineTo(X(a), Y(b)) : pen.moveTo(X(a), Y(b))));
    pen.closePath();
    pen.fillStyle = looks.start.colour; pen.fill();
    pen.strokeStyle = looks.start.edge; pen.lineWidth = 2; pen.stroke();
  }

  function mean(points) {
    return [0, 1].map((i) => points.reduce((sum, point) => sum + point[i], 0) / points.length);
  }

  function drawBoard(pen) {
    pen.fillStyle = "#ffffff"; pen.fillRect(0, 0, X(width + margin), Y(-margin));
    pen.fillStyle = "#f3ead9"; pen.fillRect(X(0), Y(height), width * scale, height * scale);
    board.pits.forEach((pit) => disc(pen, pit, board.radii.pit, "#111111"));
    disc(pen, board.goal, board.radii.goal, "#d9f0e7", "#009e73");
    pen.fillStyle = "#00694d"; pen.font = `bold ${4 * scale}px sans-serif`;
    pen.textAlign = "center"; pen.textBaseline = "middle";
    pen.fillText("★", X(board.goal[0]), Y(board.goal[1]));
    pen.fillStyle = "#6b5a45";
    board.walls.forEach(([x0, y0, x1, y1]) => pen.fillRect(X(x0), Y(y1), (x1 - x0) * scale, (y1 - y0) * scale));
    const sides = { left: [[0, 0], [0, height]], right: [[width, 0], [width, height]], bottom: [[0, 0], [width, 0]], top: [[0, height], [width, height]] };
    for (const side of board.framed) line(pen, sides[side], "#6b5a45", 1.6 * scale);
  }

  function drawRegion(pen, runs) {
    const [dx, dy] = board.spacing, ny = board.shape[1];
    for (let i = 0; i < runs.length; i += 2) {
      for (let cell = runs[i]; cell < runs[i] + runs[i + 1]; cell++) {
        const label = board.labels[cell];
        pen.fillStyle = label === "." ? "#555555cc" : board.strata[Number(label)].colour + "cc";
        const x = board.origin[0] + Math.floor(cell / ny) * dx - dx / 2, y = board.origin[1] + (cell % ny) * dy + dy / 2;
        pen.fillRect(X(x), Y(y), dx * scale, dy * scale);
      }
    }
  }

  function draw() {
    const number = Number(episodes.value), now = Number(time.value);
    for (const { method, canvas, status } of panels) {
      const run = method.episodes[number], last = run.steps.length, t = Math.min(now, last);
      const pen = canvas.getContext("2d");
      drawBoard(pen);
      line(pen, run.path.slice(0, t + 1), "#1d2329", 2);
      disc(pen, run.path[t], board.radii.marble, "#9aa5b166", "#1d2329");
      if (t < last) {
        const { cells, particles, held } = run.steps[t];
        drawRegion(pen, cells);
        particles.forEach((particle) => disc(pen, particle, 0.35, looks.particles.colour));
        if (particles.length) arrow(pen, run.path[t], mean(particles));
        start(pen, run.path[t]);
        outcome(pen, run.path[t + 1], held);
      }
      const held = run.steps.slice(0, t).filter((step) => step.held).length;
      const ended = { success: "reached the goal", fell: "fell into a pit" }[run.outcome] || run.outcome;
      status.textContent = t < last ? `step ${t} of ${last}; ${held} of ${t} outcomes inside their regions` : `${ended} after ${last} steps; ${held} of ${last} outcomes inside their regions`;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${method.name}: ${status.textContent}`);
    }
    stepShown.textContent = now;
  }

  function stop() { clearInterval(timer); timer = null; play.textContent = "Play"; }

  function go() {
    if (Number(time.value) >= Number(time.max)) time.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      time.value = Number(time.value) + 1;
      draw();
      if (Number(time.value) >= Number(time.max)) stop();
    }, Math.min(350, 14000 / Number(time.max)));
  }

  function choose() {
    const number = Number(episodes.value);
    time.max = Math.max(...data.methods.map((method) => method.episodes[number].steps.length));
    time.value = Math.min(4, time.max);
    draw();
  }

  data.methods[0].episodes.forEach((_, i) => episodes.add(new Option(`${i + 1} of ${data.methods[0].episodes.length}`, i)));
  const colours = board.strata.map(({ name, colour }) => [colour, `region: ${name}`]);
  colours.push(["#555555", "region: infeasible"], ["#9aa5b1", "marble"], ["#111111", "pit"]);
  for (const [colour, text] of colours) {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.style.background = colour;
    item.append(swatch, text);
    document.getElementById("legend").append(item);
  }
  for (const look of data.marks) {
    const item = document.createElement("li"), sign = document.createElement("b");
    sign.textContent = look.sign;
    sign.style.color = look.colour === "#FFFFFF" ? look.edge : look.colour;
    item.append(sign, look.name);
    document.getElementById("legend").append(item);
  }
  play.addEventListener("click", () => (timer ? stop() : go()));
  time.addEventListener("input", () => { stop(); draw(); });
  episodes.addEventListener("change", () => { stop(); choose(); });
  choose();
})();
