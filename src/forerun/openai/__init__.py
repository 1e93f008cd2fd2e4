"""OpenAI's API as data: what is sent, what is answered, and the engine's words for both.

    requests.py     what clients send          responses.py  what they get
    endpoint.py     from one to the other: chat.py, completions.py; options.py, delta.py
    logprobs.py, usage.py                      OpenAI's shapes of what the engine reports
    errors.py       what went wrong, with HTTP's status

What this package does not know: sockets, files, where requests come from. The server and offline
batches both stand on it.
"""
