"""The laboratory: simulated robots (`tasks`), the paper's studies (`studies`), Gymnasium environments (`gym`)."""
