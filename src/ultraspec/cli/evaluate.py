"""``ultraspec evaluate``: reads two files of labels, prints scores."""

from __future__ import annotations

from ultraspec import metrics
from ultraspec.cli._screen import Screen
from ultraspec.rows.label_files import check_same_length, read_label_file


def run(labels: str, truth: str, column: str | None, delimiter: str | None, screen: Screen) -> None:
    """Score labels against true classes."""
    clusters = read_label_file(labels, column, delimiter)
    classes = read_label_file(truth, column, delimiter)
    check_same_length(clusters, classes, (labels, truth))
    table = metrics.contingency(classes, clusters)
    facts = {
        "command": "evaluate",
        "rows": len(clusters),
        "clusters": len(table.cluster_sizes),
        "classes": len(table.class_sizes),
        "nmi": metrics.nmi(classes, clusters),
        "majority_accuracy": metrics.majority_accuracy(classes, clusters),
        "hungarian_accuracy": metrics.hungarian_accuracy(classes, clusters),
        "ari": metrics.ari(classes, clusters),
        "ami": metrics.ami(classes, clusters),
    }
    screen.result(
        facts,
        [
            ("Rows", f"{facts['rows']:,}"),
            ("Clusters, classes", f"{facts['clusters']:,}, {facts['classes']:,}"),
            ("NMI", f"{facts['nmi']:.4f}"),
            (
                "Majority accuracy",
                f"{facts['majority_accuracy']:.4f}  (CA of the paper: a cluster counts as its majority class)",
            ),
            ("Hungarian accuracy", f"{facts['hungarian_accuracy']:.4f}  (one cluster per class)"),
            ("ARI", f"{facts['ari']:.4f}"),
            ("AMI", f"{facts['ami']:.4f}"),
        ],
    )
