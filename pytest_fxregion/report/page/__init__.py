"""``--fxregion-report``: a run's tests in, one HTML page out that needs nothing beside itself.

``collect`` turns a test's runs into plain data where the test runs; ``gather`` brings the data of
all tests together where reports arrive; ``render`` writes the page.  Without the option neither
``collect`` nor ``render`` is imported.
"""
