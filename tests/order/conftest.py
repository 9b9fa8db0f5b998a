"""Settings for all tests of this room."""

from hypothesis import settings

# A shared machine is slow now and then; what is tested here is never time.
settings.register_profile("calm", deadline=None)
settings.load_profile("calm")
