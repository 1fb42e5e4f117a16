"""Ten minutes of mixed load with kill -9: `python -m tests.harness.soak`.

history.py   the clients' events, one per line
checker.py   pure: the guarantees that the history violates
transaction_checker.py   pure: the same for transactions
memory.py    pure: growth of memory
values.py    records that contain their producer, and detect every changed byte
broker.py    a broker process that is killed and restarted
producers.py, consumers.py, group_members.py   the load, with three client libraries
consumer_protocol_members.py   the part of the load that uses the consumer protocol (KIP-848)
copiers.py, copies.py   a topic copied in transactions, and the check of the copy
run.py       one run; __main__.py its command line and table
"""
