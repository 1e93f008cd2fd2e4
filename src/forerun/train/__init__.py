"""Training heads: `forerun train`. Needs the extra `train` (torch).

    prompts.py        prompts that come with forerun             prompts.txt
    chats.py          the user's own, and what is asked of the target
    texts.py          texts on disk: ids, and which of them are answers
    continuations.py  chats -> texts, by the batching engine
    features.py       texts -> hidden states on disk, by a teacher-forced pass
    target.py         what of the target a head reads: embedding, output matrix, draft vocabulary
    batches.py        texts and states -> rows to train on
    eagle3.py         the head: EAGLE-3's layer, unrolled on its own predictions
    loss.py           how far its law is from the target's
    loop.py           updates, checkpoints, when to stop
    evaluate.py       acceptance per depth on held-out texts
    measure.py        tokens per pass and speed, by the engine
    run.py            all of it, within so many minutes, in a folder

What none of it knows: the command line.
"""
