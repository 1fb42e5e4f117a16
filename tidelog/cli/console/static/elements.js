"use strict";
// Builds the elements of pages. Values are always text: no function of the console parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const node = name === "svg" || attributes.svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "svg" || value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

function link(page, ...parts) {
  const text = parts.length ? parts[parts.length - 1] : page;
  return element("a", { href: ["#/" + page, ...parts.map(encodeURIComponent)].join("/") }, text);
}

function numberText(value) {
  return value === null || value === undefined ? "-" : Number(value).toLocaleString("en");
}

function sizeText(bytes) {
  if (bytes === null || bytes === undefined || bytes < 0) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  while (bytes >= 1000 && power < units.length - 1) { bytes /= 1024; power += 1; }
  return `${power ? bytes.toPrecision(3) : bytes} ${units[power]}`;
}

function countText(count, noun, plural) { return `${numberText(count)} ${count === 1 ? noun : plural || `${noun}s`}`; }

function moneyText(amount, currency) {
  return `${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: amount < 1 ? 6 : 2 })} ${currency}`;
}

// columns: [heading, function of a row, "number" or undefined]
function table(caption, columns, rows) {
  const head = columns.map(([heading, , kind]) => element("th", { scope: "col", class: kind }, heading));
  const body = rows.map((row) => element("tr", {}, columns.map(([, cell, kind]) => {
    const value = cell(row);
    const shown = kind === "number" && !(value instanceof Node) && typeof value !== "string" ? numberText(value) : value;
    return element("td", { class: kind }, shown === null || shown === undefined || shown === "" ? "-" : shown);
  })));
  return element("div", { class: "wide", role: "region", "aria-label": caption, tabindex: "0" },
    element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)));
}

function facts(entries) {
  return element("dl", { class: "facts" }, entries.map(([name, value, kind]) =>
    element("div", {}, element("dt", {}, name), element("dd", { class: kind }, value))));
}

// A line of numbers over time; `label` describes it for screen readers.
function chart(label, values) {
  const highest = Math.max(1, ...values);
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const points = values.map((value, index) => `${index * step},${98 - (96 * value) / highest}`).join(" ");
  return element("svg", { class: "chart", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": label },
    element("polyline", { svg: true, points: values.length > 1 ? points : `0,${points.split(",")[1] || 98} 100,${points.split(",")[1] || 98}` }));
}
