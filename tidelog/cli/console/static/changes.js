"use strict";
// Forms that change the cluster, shown if the console allows writes.

function changeForm(heading, fields, buttonText, send) {
  const output = element("p", { "aria-live": "polite" });
  const inputs = fields.map(([name, label, type, value, attributes]) =>
    element("label", {}, label, type === "select"
      ? element("select", { name }, value.map((each) => element("option", { value: each }, each)))
      : element("input", { name, type, value: value === undefined ? "" : value, ...(attributes || {}) })));
  const form = element("form", {
    "aria-label": heading,
    onsubmit: async (event) => {
      event.preventDefault();
      output.className = "";
      output.replaceChildren("Sending");
      try {
        output.replaceChildren(...[await send(new FormData(form))].flat());
      } catch (error) {
        output.className = "bad";
        output.replaceChildren(error.message);
      }
    },
  }, inputs, element("button", { type: "submit" }, buttonText));
  return [element("h2", {}, heading), form, output];
}

function numberOf(text, otherwise) { return text === "" ? otherwise : Number(text); }

function topicForm() {
  return changeForm("Create a topic", [
    ["name", "Name", "text", "", { required: true }], ["partitions", "Partitions", "number", "", { min: 1, placeholder: "default" }],
    ["replication_factor", "Replicas", "number", "", { min: 1, placeholder: "default" }],
  ], "Create", async (values) => {
    const created = await change("/api/topics", {
      name: values.get("name"), partitions: numberOf(values.get("partitions"), -1),
      replication_factor: numberOf(values.get("replication_factor"), -1),
    });
    return `Created ${created.name}`;
  });
}

function recordForm(topic) {
  return changeForm("Write a record", [
    ["partition", "Partition", "number", "", { min: 0, placeholder: "by key" }], ["key", "Key", "text"], ["value", "Value", "text"],
  ], "Write", async (values) => {
    const written = await change(`/api/topics/${encodeURIComponent(topic)}/records`, {
      partition: numberOf(values.get("partition"), -1), key: values.get("key") || null, value: values.get("value"),
    });
    return `Written to partition ${written.partition} at offset ${written.offset}`;
  });
}

function resetForm(group) {
  const send = async (values, execute) => change(`/api/groups/${encodeURIComponent(group)}/offsets`, {
    topic: values.topic, to: values.to, number: numberOf(values.number, null), execute,
  });
  return changeForm("Reset offsets", [
    ["topic", "Topic", "text", "", { required: true }], ["to", "To", "select", ["earliest", "latest", "offset", "timestamp_ms"]],
    ["number", "Offset, or ms since 1970", "number", "", { min: 0 }],
  ], "Show the new offsets", async (data) => {
    const values = Object.fromEntries(data);
    const planned = await send(values, false);
    const confirm = element("button", {
      type: "button",
      onclick: async (event) => {
        const place = event.target.parentElement;
        try {
          const done = await send(values, true);
          place.replaceChildren(`Set ${countText(done.partitions.length, "offset")}`);
        } catch (error) {
          place.className = "bad";
          place.replaceChildren(error.message);
        }
      },
    }, "Set these offsets");
    const texts = planned.partitions.map((each) =>
      `partition ${each.partition}: ${each.committed_offset === null ? "none" : each.committed_offset} to ${each.new_offset}`);
    return [element("span", {}, `${texts.join("; ")} `), confirm];
  });
}
