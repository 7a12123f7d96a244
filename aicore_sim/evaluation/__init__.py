"""How well a model chooses functions and answers: suites, verdicts and figures. No device."""
