"""U-SENC, section 3.2 of the paper: an ensemble of U-SPEC models and its consensus.

=================  ==========================================================================  =========
module             what it does                                                                section
=================  ==========================================================================  =========
members            generate the members: U-SPEC models and their labels of all rows            3.2.1
graphs             members of the default: graphs of samples, and the first one of all rows
microclusters      rows with equal labels in every member, which count as one                  3.2.2
transfer_cut       consensus by a cut of the graph of rows and base clusters                   3.2.2
cross_agreement    consensus by a choice between candidates, which the members judge
consensus          what both ways have in common
methods            the registry of ways
combine            the public function `ultraspec.consensus`, for labels of any clusterers     3.2.2
label_matrix       label matrices as users pass them
predict            label new rows: members label them, the consensus assigns a cluster
=================  ==========================================================================  =========

`ultraspec.USENC.fit` calls the phases in this order.
"""
