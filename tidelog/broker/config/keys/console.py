"""The keys of the console that a broker serves. All of them are Tidelog's own."""

from __future__ import annotations

from tidelog.broker.config.keys.key import boolean, decimal, optional_text, password, text


class ConsoleKeys:
    """The address of the console, its users, and what it shows and changes."""

    console_listener = optional_text(
        "console.listener",
        "The address of the console, a web page that shows the cluster: HTTP://host:port or "
        "HTTPS://host:port, with the keys ssl.* or listener.name.console.ssl.*. If it is not set, there is "
        "no console. Needs tidelog[console]. Tidelog's own key.",
    )
    console_kafka_listener_name = optional_text(
        "console.kafka.listener.name",
        "The listener to which the console connects. Its users sign in with their credentials of SASL on "
        "this listener: user and password, or an access token. Without SASL, every user of the console has "
        "the rights of a client. The default is the first listener for clients. Tidelog's own key.",
    )
    console_writes_enable = boolean(
        "console.writes.enable",
        False,
        "Whether users of the console may create topics, write records and reset offsets, if the authorizer "
        "allows it. Tidelog's own key.",
    )
    console_schema_registry_url = password(
        "console.schema.registry.url",
        "The address of the Schema Registry with whose schemas the console decodes records; it may contain "
        "user and password. Tidelog's own key.",
    )
    console_price_gb_month = decimal(
        "console.price.gb.month",
        0.0,
        "The price of a GB (2^30 bytes) in the object store for a month. With a price above 0, the console "
        "shows what a tiered topic costs. Tidelog's own key.",
        minimum=0,
    )
    console_price_1000_requests = decimal(
        "console.price.1000.requests",
        0.0,
        "The price of 1,000 requests that write an object to the object store. Tidelog's own key.",
        minimum=0,
    )
    console_price_currency = text(
        "console.price.currency",
        "USD",
        "The currency of the prices, which the console shows. Tidelog's own key.",
    )
