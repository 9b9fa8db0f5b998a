"""Settings for the tests of training."""

collect_ignore_glob = ["programs/*"]  # run as programs of their own, with arguments
