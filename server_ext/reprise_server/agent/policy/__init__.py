"""Guardrails: what the agent may do, as data, decided by pure code for each call.

`rules` is a policy as data, `reading` reads it from YAML or JSON, `engine.evaluate` gives the
verdict of an act, `taint` says what is not trusted, `offers` what an approval may allow, `trial`
tries a policy on what was called before, `levels` finds the policies that bind somebody.
"""
