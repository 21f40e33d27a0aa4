"""What a dialect says, in the words of chat completions, and chat's answers in the dialect's words.

One module a dialect reads its requests (`messages`, `responses`), one tells its answers
(`told_messages`, `told_responses`); `registry` says which dialect has which. Shared are how a
request is read so that nothing of it gets lost (`documents`), the order a conversation must have
(`conversation`), and what chat answers, in pieces (`pieces`). Bytes, frames and connections are the
gateway's. To add a dialect: both modules, its entry in the registry, a row in docs/api.md.
"""
