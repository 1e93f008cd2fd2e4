"""One engine each, run as a process of its own: `python serve.py FILE`.

A peer's file runs under the peer's Python, where forerun is not installed: such a file imports the
standard library and its engine, and nothing of forerun. The class `Engine` of a file answers these
calls; what they take and give is plain JSON.

    Engine(model, draft_model, threads, context, **settings)     loads the models
    info()                            -> {"version": …, …}       goes into the report
    generate(mode, num_draft, prompt, max_tokens, temperature, top_p, seed, stop_ids)
        -> tokens         ids, up to and with a stop id
           arrivals       [seconds since the call, tokens delivered at that moment], in order
           passes         target passes after the first delivery, or null
           drafted, accepted                   of the whole answer, or null
           model_seconds  in passes of target and draft after the first delivery, or null
           expected       [tokens, seconds] that the control foretold, and what came of the same
                          rounds, [tokens, seconds]; or null
    passes(ids, rows, times)          -> seconds of each of `times` passes over `rows` new tokens,
                                         all their logits wanted, after `ids`; null where the engine
                                         does not say
    prompt(ids)                       -> seconds of reading `ids`, the last logits wanted, or null
"""
