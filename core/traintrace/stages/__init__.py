"""Pipelines of stages and queues: what each worker writes, how it is replayed, and how it reaches the run.

| question                                                          | file                        |
|-------------------------------------------------------------------|-----------------------------|
| what a worker writes; how code finds the worker it runs in        | `marks.py`, `worker.py`     |
| `with stage:` and `done`                                          | `stage.py`                  |
| which account a nanosecond belongs to; what a service is          | `ledger.py`                 |
| what went through a queue                                         | `queuebook.py`              |
| who works in this process; folding journals; the end              | `recorder.py`, `held.py`    |
| how a queue is followed without being replaced; its methods       | `queues.py`, `operations.py`|
| a queue written in C; a queue that is pickled                     | `simplequeue.py`, `pickling.py` |
| what is handed on, within a process and from a child to its parent | `records.py`, `delivery.py`, `inbox.py` |

`recording/stagelog.py` holds them together for a session; `store/stagerows.py` and `stagetables.py` are what is stored.
"""
