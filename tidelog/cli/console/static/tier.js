"use strict";
// The tier of a topic: each partition as a band of its offsets. The upper half is what the object store has, with copies in
// progress; the lower half is what the local disk of the leader has. Lines between them are the starts of leader epochs.

async function tierOf(name) {
  try {
    const tier = await read(`topics/${encodeURIComponent(name)}/tier`);
    return { ...tier, byPartition: new Map(tier.partitions.map((each) => [each.partition, each])) };
  } catch (error) {
    return { error: error.message, byPartition: new Map() };
  }
}

function tierBand(partition, stored, lowest, highest) {
  const range = Math.max(1, highest - lowest);
  const at = (offset) => (1000 * (offset - lowest)) / range;
  const part = (kind, y, from, to, height = 10) => (from === null || to === null || to <= from ? null : element("rect", {
    svg: true, class: kind, y, height, x: at(from), width: Math.max(2, at(to) - at(from)),
  }));
  const start = partition.log_start_offset;
  const end = partition.log_end_offset;
  const localStart = partition.local_log_start_offset === null ? start : partition.local_log_start_offset;
  const tierEnd = Math.max(start, partition.tier_end_offset || 0);
  const epochs = stored ? stored.leader_epochs : [];
  const copies = stored ? stored.copies : [];
  const label = `partition ${partition.partition}: offsets ${start} to ${end}; in the object store ${start} to ${tierEnd}; ` +
    `on the local disk ${localStart} to ${end}` +
    (epochs.length ? `; leader epochs ${epochs.map((each) => `${each.leader_epoch} from ${each.start_offset}`).slice(-10).join(", ")}` : "") +
    (copies.length ? `; ${countText(copies.length, "copy", "copies")} in progress` : "");
  return element("svg", { class: "band", viewBox: "0 0 1000 22", preserveAspectRatio: "none", height: 22, role: "img", "aria-label": label },
    element("title", { svg: true }, label),
    part("none", 0, start, end), part("none", 12, start, end),
    part("remote", 0, start, tierEnd), part("local", 12, localStart, end),
    copies.map((each) => part("copy", 0, each.start_offset, each.end_offset + 1)),
    epochs.filter((each) => each.start_offset >= start && each.start_offset <= end).map((each) =>
      element("rect", { svg: true, class: "epoch", x: Math.min(998, at(each.start_offset)), y: 0, width: 2, height: 22 })));
}

function segmentsInProgress(tier) {
  const rows = tier.partitions.flatMap((partition) => [["copy", partition.copies], ["deletion", partition.deletions]].flatMap(
    ([kind, segments]) => segments.map((segment) => ({ kind, partition: partition.partition, ...segment }))));
  if (!rows.length) return [];
  return [
    element("h2", {}, "Copies and deletions in progress"),
    table("Copies and deletions in progress", [
      ["Partition", (each) => each.partition, "number"], ["Work", (each) => each.kind],
      ["Offsets", (each) => `${numberText(each.start_offset)} to ${numberText(each.end_offset)}`], ["Size", (each) => sizeText(each.size_bytes), "number"],
      ["Broker", (each) => each.broker, "number"],
      ["Since", (each) => new Date(each.since_ms).toISOString().replace("T", " ").slice(0, 19), "time"],
    ], rows),
  ];
}

function tierSection(topic, tier) {
  const known = topic.partitions.filter((each) => each.log_start_offset !== null && each.log_end_offset !== null);
  if (!topic.is_tiered || !known.length) return null;
  const lowest = Math.min(...known.map((each) => each.log_start_offset));
  const highest = Math.max(...known.map((each) => each.log_end_offset));
  const stored = (each) => tier.byPartition.get(each.partition);
  return [
    element("h2", {}, "Tier"),
    tier.error !== undefined
      ? element("p", { class: "bad" }, `Segments, epochs and cost are not known: ${tier.error}`)
      : facts([
        ["Segments", numberText(tier.segments)], ["Objects", numberText(tier.objects)], ["Bytes in the object store", sizeText(tier.size_bytes)],
        ...(tier.cost ? [
          ["Storage for a month", moneyText(tier.cost.month, tier.cost.currency)],
          ["Requests that wrote the objects", moneyText(tier.cost.requests, tier.cost.currency)],
        ] : []),
      ]),
    element("p", {}, element("span", { class: "key remote" }, "in the object store"), " ", element("span", { class: "key copy" }, "copy in progress"), " ",
      element("span", { class: "key local" }, "on the local disk"), " ", element("span", { class: "key epoch" }, "start of a leader epoch")),
    table("Tier", [
      ["Partition", (each) => each.partition, "number"],
      [`Offsets ${numberText(lowest)} to ${numberText(highest)}`, (each) => tierBand(each, stored(each), lowest, highest)],
      ["Local from", (each) => each.local_log_start_offset, "number"],
      ["Tier to", (each) => each.tier_end_offset, "number"],
      ["Not in the tier", (each) => Math.max(0, each.log_end_offset - Math.max(each.tier_end_offset || 0, each.log_start_offset)), "number"],
      ["Epochs", (each) => (stored(each) ? stored(each).leader_epochs.length : null), "number"],
      ["Objects", (each) => (stored(each) ? stored(each).objects : null), "number"],
      ["Bytes", (each) => (stored(each) ? sizeText(stored(each).size_bytes) : null), "number"],
    ], known),
    ...(tier.error === undefined ? segmentsInProgress(tier) : []),
  ];
}
