"""From a mark of the training thread to a booked row: journal, ledger, drain, and what lies beside the rows."""
