"""The standard library's tests of multiprocessing with the start method spawn; see `standard_library`."""

from test._test_multiprocessing import (  # type: ignore[import-not-found]
    install_tests_in_module_dict,
)

install_tests_in_module_dict(globals(), "spawn")
