"use strict";
// Pages by the part of the address after #, live state by server-sent events.

const REFRESH_MS = 5000;
const HISTORY_LENGTH = 120;
const histories = new Map();
let refreshTimer = 0;
let shown = 0;
let features = { user: null, allows_writes: false, has_schemas: false };

async function read(path) { return documentOf(await fetch(`/api/${path}`, { credentials: "same-origin" })); }

async function change(path, document_) {
  return documentOf(await fetch(path, {
    method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document_),
  }));
}

async function documentOf(response) {
  const text = await response.text();
  let document_;
  try { document_ = JSON.parse(text); } catch (error) { throw new Error(text.trim() || response.statusText); }
  if (!response.ok) throw new Error(document_.error);
  return document_;
}

function record(name, value) {
  const values = histories.get(name) || [];
  values.push(value);
  if (values.length > HISTORY_LENGTH) values.shift();
  histories.set(name, values);
  return values;
}

// The offsets per second since the last call for this topic; null until there are two calls.
function rateOf(page, name, total) {
  const now = performance.now();
  const key = `${page}: end of ${name}`;
  const before = histories.get(key);
  histories.set(key, { now, total });
  return before && now > before.now ? Math.max(0, (1000 * (total - before.total)) / (now - before.now)) : null;
}

function rateText(rate) { return rate === null ? "measuring" : numberText(Math.round(rate)); }

// The bytes per second that were written since the last call: the growth of the logs of the leaders. A log from which
// segments were deleted meanwhile, or whose size is not known, is not counted.
function growthOf(page, name, sizes) {
  const now = performance.now();
  const key = `${page}: sizes of ${name}`;
  const before = histories.get(key);
  histories.set(key, { now, sizes });
  if (!sizes.some(isKnown)) return undefined;
  if (!before || now <= before.now) return null;
  const grown = sizes.map((size, index) => (isKnown(size) && isKnown(before.sizes[index]) ? Math.max(0, size - before.sizes[index]) : 0));
  return (1000 * grown.reduce((sum, each) => sum + each, 0)) / (now - before.now);
}

function isKnown(value) { return value !== null && value !== undefined; }

function growthText(growth) {
  return growth === undefined ? "-" : growth === null ? "measuring" : `${sizeText(Math.round(growth))}/s`;
}

const pages = {
  async ""() {
    const cluster = await read("overview");
    return ["Overview", [
      facts([
        ["Cluster", cluster.cluster_id || "-"], ["Controller", cluster.controller_id],
        ["State", cluster.healthy ? "healthy" : countText(cluster.problems.length, "problem"), cluster.healthy ? "good" : "bad"],
        ["Topics", numberText(cluster.topics)], ["Partitions", numberText(cluster.partitions)],
        ["Without leader", cluster.offline_partitions.length, cluster.offline_partitions.length ? "bad" : null],
        ["Under-replicated", cluster.under_replicated_partitions.length, cluster.under_replicated_partitions.length ? "bad" : null],
        ["Offsets not in the tier", cluster.tiered_partitions ? numberText(cluster.offsets_not_in_tier) : "no tiered topic"],
      ]),
      cluster.problems.length ? element("ul", { class: "bad" }, cluster.problems.map((each) => element("li", {}, each))) : null,
      element("h2", {}, "Brokers"),
      table("Brokers", [
        ["Broker", (node) => node.broker, "number"], ["Address", (node) => node.address],
        ["State", (node) => element("span", { class: node.state === "serving" ? "good" : "bad" }, node.state)],
        ["Logs", (node) => sizeText(node.used_bytes), "number"], ["Free", (node) => sizeText(node.usable_bytes), "number"],
        ["Disk", (node) => sizeText(node.total_bytes), "number"],
        ["Directories", (node) => (node.failed_log_dirs ? `${node.log_dirs}, ${node.failed_log_dirs} offline` : node.log_dirs), "number"],
      ], cluster.nodes),
    ]];
  },
  async topics(name) {
    if (name !== undefined) return topicPage(name);
    const topics = await read("topics");
    return ["Topics", [table("Topics", [
      ["Topic", (topic) => link("topics", topic.name)], ["Partitions", (topic) => topic.partitions, "number"],
      ["Replicas", (topic) => topic.replication_factor, "number"],
      ["State", (topic) => element("span", { class: topic.without_leader || topic.under_replicated ? "bad" : "good" },
        topic.without_leader ? `${topic.without_leader} without leader`
          : topic.under_replicated ? `${topic.under_replicated} under-replicated` : "in sync")],
      ["Offsets/s", (topic) => (topic.end_offsets === null ? "-" : rateText(rateOf("topics", topic.name, topic.end_offsets))), "number"],
      ["Written", (topic) => growthText(growthOf("topics", topic.name, topic.leader_sizes_bytes)), "number"],
      ["Internal", (topic) => (topic.is_internal ? "internal" : "")],
    ], topics)], features.allows_writes ? topicForm : undefined];
  },
  async groups(name) {
    if (name !== undefined) return groupPage(name);
    const groups = await read("groups");
    return ["Groups", [table("Groups", [
      ["Group", (group) => link(group.group_type.toLowerCase() === "share" ? "share-groups" : "groups", group.group_id)], ["State", (group) => group.state],
      ["Type", (group) => group.group_type], ["Protocol", (group) => group.protocol_type],
    ], groups)]];
  },
  async "share-groups"(name) { return shareGroupPage(name); },
  async transactions() {
    const transactions = await read("transactions");
    return ["Transactions", [table("Transactions", [
      ["Transactional id", (each) => each.transactional_id], ["State", (each) => each.state],
      ["Coordinator", (each) => each.coordinator_id, "number"], ["Producer id", (each) => each.producer_id, "number"],
    ], transactions)]];
  },
  async quotas() {
    const quotas = await read("quotas");
    return ["Quotas", [table("Quotas", [
      ["Entity", (each) => each.entity],
      ["Quotas", (each) => Object.entries(each.quotas).map(([key, value]) => element("div", {}, `${key}: ${numberText(value)}`))],
    ], quotas)]];
  },
  async acls() {
    const { is_enabled: isEnabled, entries } = await read("acls");
    const note = isEnabled ? null : element("p", {}, "The cluster has no authorizer: everyone may do everything.");
    return ["Access control entries", [note, table("Access control entries", [
      ["Permission", (each) => each.permission], ["Principal", (each) => each.principal], ["Operation", (each) => each.operation],
      ["Resource", (each) => `${each.resource_type} ${each.pattern_type} ${each.resource_name}`], ["Host", (each) => each.host],
    ], entries)]];
  },
};

async function topicPage(name) {
  const topic = await read(`topics/${encodeURIComponent(name)}`);
  const tier = topic.is_tiered ? await tierOf(name) : null;
  const rate = rateOf("topic", name, topic.partitions.reduce((sum, each) => sum + (each.log_end_offset || 0), 0));
  const leaderSize = (each) => (each.logs.find((log) => log.broker === each.leader) || {}).size_bytes;
  const parts = [
    facts([
      ["Partitions", topic.partitions.length], ["Tiered storage", topic.is_tiered ? "enabled" : "disabled"],
      ["Offsets per second", rateText(rate)], ["Written", growthText(growthOf("topic", name, topic.partitions.map(leaderSize)))],
      ["Size of leaders", sizeText(topic.partitions.reduce((sum, each) => sum + (leaderSize(each) || 0), 0))],
      ...Object.entries(topic.configs),
    ]),
    ...(tierSection(topic, tier) || []),
    element("h2", {}, "Partitions"),
    table("Partitions", [
      ["Partition", (each) => each.partition, "number"],
      ["Leader", (each) => (each.leader < 0 ? element("span", { class: "bad" }, "none") : each.leader), "number"],
      ["Epoch", (each) => each.leader_epoch, "number"],
      ["Replicas", (each) => each.replicas.map((id) => element("span",
        { class: each.in_sync_replicas.includes(id) ? null : "bad" }, `${id}${each.in_sync_replicas.includes(id) ? "" : " (not in sync)"} `))],
      ["Start", (each) => each.log_start_offset, "number"], ["End", (each) => each.log_end_offset, "number"],
      ["Size", (each) => sizeText(leaderSize(each)), "number"],
      ["Largest lag", (each) => Math.max(0, ...each.logs.map((log) => log.lag)), "number"],
    ], topic.partitions),
  ];
  return [name, parts, () => [...recordBrowser(name), ...(features.allows_writes ? recordForm(name) : [])]];
}

async function groupPage(name) {
  const group = await read(`groups/${encodeURIComponent(name)}`);
  const values = record(`lag of ${name}`, group.total_lag);
  return [name, [
    facts([
      ["State", group.state], ["Type", group.type], ["Assignor", group.assignor || "-"], ["Coordinator", group.coordinator_id],
      ["Members", group.members.length], ["Total lag", numberText(group.total_lag)],
    ]),
    element("h2", {}, "Lag over time"),
    chart(`Total lag since this page was opened: from ${values[0]} to ${countText(group.total_lag, "record")}`, values),
    element("h2", {}, "Partitions"),
    table("Partitions of the group", [
      ["Topic", (each) => link("topics", each.topic)], ["Partition", (each) => each.partition, "number"],
      ["Committed", (each) => each.committed_offset, "number"], ["End", (each) => each.log_end_offset, "number"],
      ["Lag", (each) => each.lag, "number"], ["Member", (each) => each.client_id], ["Host", (each) => each.client_host],
    ], group.partitions),
    element("h2", {}, "Members"),
    table("Members", [
      ["Client", (each) => each.client_id], ["Member", (each) => each.member_id], ["Host", (each) => each.client_host],
      ["Epoch", (each) => each.member_epoch, "number"],
    ], group.members),
  ], features.allows_writes ? () => resetForm(name) : undefined];
}

async function shareGroupPage(name) {
  const group = await read(`share-groups/${encodeURIComponent(name)}`);
  const lag = group.offsets.reduce((sum, each) => sum + (each.lag || 0), 0);
  const values = record(`lag of share group ${name}`, lag);
  return [name, [
    facts([
      ["State", group.state], ["Type", "share"], ["Assignor", group.assignor || "-"], ["Coordinator", group.coordinator_id],
      ["Group epoch", group.group_epoch], ["Members", group.members.length], ["Total lag", numberText(lag)],
    ]),
    element("h2", {}, "Lag over time"),
    chart(`Total lag since this page was opened: from ${values[0]} to ${countText(lag, "record")}`, values),
    element("h2", {}, "Partitions"),
    table("Partitions of the share group", [
      ["Topic", (each) => link("topics", each.topic)], ["Partition", (each) => each.partition, "number"],
      ["Start", (each) => each.start_offset, "number"], ["Leader epoch", (each) => each.leader_epoch, "number"],
      ["Lag", (each) => each.lag, "number"],
    ], group.offsets),
    element("h2", {}, "Members"),
    table("Members", [
      ["Client", (each) => each.client_id], ["Member", (each) => each.member_id], ["Host", (each) => each.client_host],
      ["Epoch", (each) => each.member_epoch, "number"], ["Topics", (each) => each.topics.join(", ")],
      ["Partitions", (each) => each.partitions.length, "number"],
    ], group.members),
  ]];
}

function partsOfAddress() {
  try {
    return window.location.hash.replace(/^#\/?/, "").split("/").map((part) => decodeURIComponent(part));
  } catch (error) {
    return [""];
  }
}

// Shows the page of the address. A refresh keeps the message browser and the focus.
async function show(isRefresh) {
  window.clearTimeout(refreshTimer);
  const began = performance.now();
  const number = ++shown;
  const [page, ...parts] = partsOfAddress();
  const main = document.getElementById("content");
  for (const each of document.querySelectorAll("nav a")) {
    if (each.getAttribute("href") === (page ? `#/${page.replace("share-", "")}` : "#/")) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  try {
    const [title, children, further] = await (Object.hasOwn(pages, page) ? pages[page] : pages[""])(...parts);
    if (number !== shown) return;
    const state = element("div", { id: "live" }, element("h1", {}, title), children);
    if (isRefresh && document.getElementById("live")) document.getElementById("live").replaceWith(state);
    else main.replaceChildren(state, ...(further ? further() : []));
    document.title = `${title} - Tidelog console`;
  } catch (error) {
    if (number !== shown) return;
    if (!isRefresh) main.replaceChildren(element("p", { class: "bad", role: "alert" }, error.message));
  }
  if (!isRefresh && document.activeElement !== document.body) main.focus();
  // A page that takes long to read is read more rarely.
  refreshTimer = window.setTimeout(() => show(true), Math.max(REFRESH_MS, 10 * (performance.now() - began)));
}

function watch() {
  const state = document.getElementById("state");
  const events = new EventSource("/api/events");
  events.addEventListener("overview", (event) => {
    const cluster = JSON.parse(event.data);
    const text = cluster.error ? cluster.error : cluster.healthy ? "healthy" : cluster.problems.join("; ");
    const kind = !cluster.error && cluster.healthy ? "good" : "bad";
    if (state.textContent !== text) state.textContent = text;
    state.className = kind;
  });
  events.addEventListener("error", () => {
    const refused = events.readyState === EventSource.CLOSED;
    state.textContent = refused ? "no live state: close other windows of the console" : "no connection to the console";
    state.className = "bad";
  });
}

async function begin() {
  features = await read("console");
  if (features.user !== null) {
    const leave = async () => { await fetch("/sign-out", { method: "POST", headers: { "Content-Type": "application/json" } }); window.location.reload(); };
    document.querySelector("header").append(element("button", { type: "button", onclick: leave }, `Sign out ${features.user}`));
  }
  show(false);
  watch();
}

window.addEventListener("hashchange", () => show(false));
window.addEventListener("DOMContentLoaded", begin);
