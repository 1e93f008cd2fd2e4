"""What to use here: predicted tokens per second of every drafter at hand, on a user's prompts.

    texts.py     the prompts, and what the target writes after them, plainly
    rounds.py    what a round takes, by rows and by requests that share it, measured
    replay.py    what a drafter proposes all along a text, what of it would be kept, what it takes
    walk.py      rounds played through: how many there are, and the seconds they come to
    forecast.py  every drafter, every γ
    check.py     what an engine then does        report.py, plot.py   what is said of it

Nothing is decoded speculatively for it: a text is the same whoever drafts, so that one replay
answers for every γ, and for any number of requests at once.
"""
