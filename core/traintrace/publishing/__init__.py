"""Publish a run whose ranks share no disk: each records on its own machine and sends what is new to one place.

    rank's file in the spool -> segments, once a minute -> the place (any URL of fsspec) -> whole file at the end
                                                              |
                                    fetch_run: whole files, or segments put together -> a run folder to read

| question                                                     | file                             |
|--------------------------------------------------------------|----------------------------------|
| what a URL or path is, and how a file gets there whole       | `location.py`, `remote.py`       |
| which paths no live database may lie on                      | `filesystems.py`                 |
| who may have a name there                                    | `claims.py`                      |
| what a segment holds; how segments become a file again       | `segments.py`, `assembly.py`     |
| when what is sent, and what happens if it cannot be          | `publisher.py`, `published.py`   |
| what dead processes left on this machine                     | `spool.py`, `leftovers.py`       |
| how it is read                                               | `fetch.py`, `waiting.py`         |
"""
