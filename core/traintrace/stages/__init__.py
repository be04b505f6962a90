"""Pipelines of stages and queues: what each worker writes, how it is replayed, and how it reaches the run.

| question                                                          | file                        |
|-------------------------------------------------------------------|-----------------------------|
| what a worker writes                                              | `marks.py`, `worker.py`     |
| `with stage:` and `done`; how code finds the block it runs in     | `stage.py`, `blocks.py`     |
| which account a nanosecond belongs to; what a service is          | `ledger.py`                 |
| what went through a queue                                         | `queuebook.py`              |
| who works in this process; folding journals; the end              | `places.py`, `recorder.py`, `held.py` |
| what was named before a session began, and what it makes of that  | `named.py`, `takingup.py`, `midway.py` |
| how a queue is followed without being replaced; its methods       | `queues.py`, `operations.py`|
| a queue written in C; a queue that is pickled                     | `simplequeue.py`, `pickling.py` |
| what is handed on, within a process and from a child to its parent | `records.py`, `delivery.py`, `inbox.py` |

`recording/stagelog.py` holds them together for a session; `store/stagerows.py` and `stagetables.py` are what is stored.
"""
