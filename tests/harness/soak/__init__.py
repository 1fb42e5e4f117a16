"""Ten minutes of mixed load with kill -9: `python -m tests.harness.soak`.

history.py   what the clients saw, one event per line
checker.py   pure: which promises the history breaks
transaction_checker.py   pure: the same for transactions
memory.py    pure: does memory grow
values.py    records that say who wrote them, and prove that no byte changed
broker.py    a broker process that is killed and comes back
producers.py, consumers.py, group_members.py   the load, with three client libraries
copiers.py, copies.py   a topic copied in transactions, and the verdict on the copy
run.py       one run; __main__.py its command line and table
"""
