"""Several processes and machines, by Ray. Needs the extra `cluster`.

    connect.py   a Ray of one's own, or one that runs
    batch.py     a batch's lines over Ray Data, an engine in each actor
    serve.py     a server over Ray Serve: what is deployed, watched and ended
      front.py   the server's app, in a process without an engine
      relay.py   the answers of a request, over the deaths of who writes them
      calls.py   what front and replica say to each other
      replica.py an engine that answers calls
      router.py  which replica gets a call; prefixes.py  who has read how a text begins

Ray schedules, restarts, scales and carries the data; nothing of that is done here.
"""
