"use strict";
// The tier of a topic: each partition as a band of its offsets. The upper half is what the object store has, the lower
// half what the local disk of the leader has.

function tierBand(partition, lowest, highest) {
  const range = Math.max(1, highest - lowest);
  const part = (kind, y, from, to) => (from === null || to === null || to <= from ? null : element("rect", {
    svg: true, class: kind, y, height: 10,
    x: (1000 * (from - lowest)) / range, width: Math.max(2, (1000 * (to - from)) / range),
  }));
  const start = partition.log_start_offset;
  const end = partition.log_end_offset;
  const localStart = partition.local_log_start_offset === null ? start : partition.local_log_start_offset;
  const tierEnd = Math.max(start, partition.tier_end_offset || 0);
  const label = `partition ${partition.partition}: offsets ${start} to ${end}; in the object store ${start} to ${tierEnd}; ` +
    `on the local disk ${localStart} to ${end}`;
  return element("svg", { class: "band", viewBox: "0 0 1000 22", preserveAspectRatio: "none", height: 22, role: "img", "aria-label": label },
    element("title", { svg: true }, label),
    part("none", 0, start, end), part("none", 12, start, end),
    part("remote", 0, start, tierEnd), part("local", 12, localStart, end));
}

function tierSection(topic) {
  const known = topic.partitions.filter((each) => each.log_start_offset !== null && each.log_end_offset !== null);
  if (!topic.is_tiered || !known.length) return null;
  const lowest = Math.min(...known.map((each) => each.log_start_offset));
  const highest = Math.max(...known.map((each) => each.log_end_offset));
  return [
    element("h2", {}, "Tier"),
    element("p", {}, element("span", { class: "key remote" }, "in the object store"), " ",
      element("span", { class: "key local" }, "on the local disk")),
    table("Tier", [
      ["Partition", (each) => each.partition, "number"],
      [`Offsets ${numberText(lowest)} to ${numberText(highest)}`, (each) => tierBand(each, lowest, highest)],
      ["Local from", (each) => each.local_log_start_offset, "number"],
      ["Tier to", (each) => each.tier_end_offset, "number"],
      ["Not in the tier", (each) => Math.max(0, each.log_end_offset - Math.max(each.tier_end_offset || 0, each.log_start_offset)), "number"],
    ], known),
  ];
}
