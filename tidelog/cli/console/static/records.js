"use strict";
// The message browser of a topic.

function shownBytes(value) {
  if (value === null) return element("em", {}, "null");
  if (typeof value === "object") return element("pre", {}, `base64: ${value.base64}`);
  try {
    const parsed = JSON.parse(value);
    if (typeof parsed === "object" && parsed !== null) return element("pre", {}, JSON.stringify(parsed, null, 2));
  } catch (error) { /* It is no JSON: it is shown as it is. */ }
  return element("pre", {}, value);
}

// The schema of a registry for a key or a value, if there is one.
function shownPart(value, decoded) {
  if (!decoded) return shownBytes(value);
  if (decoded.error !== undefined) {
    return element("div", {}, shownBytes(value), element("em", { class: "bad" }, `schema ${decoded.schema_id}: ${decoded.error}`));
  }
  return element("div", {}, shownBytes(decoded.text), element("em", {}, `${decoded.schema_type}, schema ${decoded.schema_id}`));
}

function recordTable(found) {
  return table("Records", [
    ["Offset", (record) => record.offset, "number"],
    ["Time", (record) => (record.timestamp_ms < 0 ? "-" : new Date(record.timestamp_ms).toISOString().replace("T", " ")), "time"],
    ["Key", (record) => shownPart(record.key, record.decoded_key)],
    ["Value", (record) => element("div", {}, shownPart(record.value, record.decoded_value), record.is_cut ? element("em", {}, `cut; ${sizeText(record.size_bytes)} in all`) : null)],
    ["Headers", (record) => record.headers.map(([name, value]) => element("div", {}, `${name}: `, shownBytes(value)))],
  ], found.records);
}

function recordBrowser(topic) {
  const field = (name, label, type, value = "") => element("label", {}, label, element("input", { name, type, value, min: type === "number" ? 0 : null }));
  const output = element("div", { "aria-live": "polite" });
  const form = element("form", {
    "aria-label": "Search for records",
    onsubmit: async (event) => {
      event.preventDefault();
      await search();
    },
  },
  field("partition", "Partition", "number", "0"), field("offset", "From offset", "number"),
  field("time", "or from time (UTC)", "datetime-local"), field("key", "Key contains", "text"),
  field("text", "Record contains", "text"), field("limit", "Records", "number", "50"),
  element("button", { type: "submit" }, "Show"));

  async function search(offset = null) {
    const values = new FormData(form);
    const parameters = new URLSearchParams();
    for (const name of ["partition", "key", "text", "limit"]) parameters.set(name, values.get(name));
    if (offset !== null || values.get("offset")) parameters.set("offset", offset === null ? values.get("offset") : offset);
    else if (values.get("time")) parameters.set("timestamp_ms", Date.parse(`${values.get("time")}Z`));
    output.replaceChildren("Reading");
    try {
      const found = await read(`topics/${encodeURIComponent(topic)}/records?${parameters}`);
      const state = `${found.records.length} of ${countText(found.scanned, "record")} that the search has read; the partition has the offsets ` +
        `${numberText(found.start_offset)} to ${numberText(found.end_offset)}.`;
      const next = found.is_complete ? null : element("button", { type: "button", onclick: () => search(found.next_offset) }, "Next records");
      output.replaceChildren(element("p", {}, state), recordTable(found), ...(next ? [next] : []));
    } catch (error) {
      output.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  search();
  return [element("h2", {}, "Records"), form, output];
}
