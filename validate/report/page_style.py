"""The style of the page: light and dark; no CSS rule applies outside of ``.wdsflow``."""

STYLE = """
.wdsflow { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; --good: #1a7f45; --bad: #c62f2f; --warn: #9a6700; --soft: rgba(128, 128, 128, .14); --line: rgba(128, 128, 128, .35); overflow-wrap: anywhere; }
.wdsflow h2 { font-size: 1.15em; margin: 0 0 .3em; }
.wdsflow h3 { font-size: 1em; margin: 1.4em 0 .4em; }
.wdsflow p { margin: .3em 0; }
.wdsflow .verdict { border: 1px solid var(--line); border-left: .4em solid var(--bad); border-radius: .4em; padding: .8em 1em; margin: 0 0 .8em; }
.wdsflow .trains { border-left-color: var(--good); }
.wdsflow .outcome { color: #fff; background: var(--bad); border-radius: .3em; padding: .1em .5em; margin-left: .4em; font-size: .8em; text-transform: uppercase; letter-spacing: .05em; }
.wdsflow .trains .outcome { background: var(--good); }
.wdsflow .bar { background: var(--soft); border-radius: .3em; height: .5em; margin: .6em 0; overflow: hidden; }
.wdsflow .bar div { background: var(--good); height: 100%; }
.wdsflow .funnel { display: flex; flex-wrap: wrap; gap: .1em 1.6em; list-style: none; margin: 0; padding: 0; font-size: .9em; }
.wdsflow .funnel li + li::before { content: "→"; opacity: .5; margin: 0 .7em 0 -.9em; }
.wdsflow ul, .wdsflow ol { margin: .3em 0; padding-left: 1.4em; text-align: left; }
.wdsflow pre { background: var(--soft); border: 0; border-radius: .3em; color: inherit; font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; margin: .3em 0; overflow-x: auto; padding: .5em .8em; white-space: pre; overflow-wrap: normal; }
.wdsflow details { border-top: 1px solid var(--line); padding: .45em 0; }
.wdsflow summary { cursor: pointer; }
.wdsflow .tag { border-radius: .3em; color: #fff; font-size: .8em; padding: .1em .5em; background: #57606a; }
.wdsflow .tag.error { background: var(--bad); }
.wdsflow .tag.warning { background: var(--warn); }
.wdsflow .dim { opacity: .7; font-size: .9em; }
.wdsflow .note { border-left: .2em solid var(--line); padding-left: .7em; }
.wdsflow table { border-collapse: collapse; font-size: .9em; margin: .4em 0; }
.wdsflow th, .wdsflow td { padding: .15em 1em .15em 0; text-align: left; border: 0; }
@media (prefers-color-scheme: dark) { .wdsflow { --good: #2f9e5f; --bad: #e05252; --warn: #b7811a; } }
"""
