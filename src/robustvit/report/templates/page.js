"use strict";
(function () {
  // Tables sort by a click on a heading; the page is complete without.
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells).forEach(function (heading, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", function () {
        const up = heading.getAttribute("aria-sort") === "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = Array.from(body.rows);
        rows.sort(function (a, b) {
          const [x, y] = [a.cells[column].dataset.order, b.cells[column].dataset.order];
          if (x === "" || y === "") return (x === "") - (y === "");
          const order = column === 0 ? x.localeCompare(y) : Number(x) - Number(y);
          return up ? order : -order;
        });
        body.append(...rows);
      });
    });
  }
  // One network at a time, with buttons to choose; printing shows all.
  const models = Array.from(document.querySelectorAll("section.model"));
  const bar = document.createElement("nav");
  bar.className = "chooser";
  bar.setAttribute("aria-label", "Networks");
  function show(chosen) {
    models.forEach(function (model, k) { model.classList.toggle("off", chosen >= 0 && k !== chosen); });
    Array.from(bar.children).forEach(function (button, k) { button.setAttribute("aria-pressed", String(k - 1 === chosen)); });
  }
  ["All networks"].concat(models.map(function (model) { return model.dataset.name; })).forEach(function (name, k) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", function () { show(k - 1); });
    bar.append(button);
  });
  models[0].before(bar);
  show(models.length > 3 ? 0 : -1);
})();
