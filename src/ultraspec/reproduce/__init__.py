"""The paper's experiments: declared, run, and set beside the paper's own figures.

`declarations` says what is run (data set x method x parameters x seeds), `runner` runs each in a process of its own,
`store` keeps one line per run, `summary` compares, `markdown` and `page` write it down. The command line is
``ultraspec reproduce``.
"""
