"""The paper's experiments, run again and compared with the results that the paper reports.

* What to run: `declarations` has the paper's tables, data sets and methods; `experiment` is a user's selection of them.
* Running: `runner` starts a process for each run, `worker` is that process, `store` keeps a line per run.
  `dataset_cache` and `member_cache` keep what runs share; `time_estimate` predicts how long they take.
* Comparing: `paper_results` has the paper's results; `summary` compares ours with them; `averages` has the paper's
  rules for averages and ranks.
* Writing: `markdown` and `page` render the tables; `formatting` is what both share, `charts` draws the curves.

The command line is ``ultraspec reproduce``.
"""
