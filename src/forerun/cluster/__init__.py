"""Several processes and machines, by Ray. Needs the extra `cluster`.

    batch.py   a batch's lines over Ray Data, an engine in each actor

Ray schedules, restarts and carries the data; nothing of that is done here.
"""
