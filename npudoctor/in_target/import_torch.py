"""Imports torch as a job does."""

import npudoctor_attempt

npudoctor_attempt.attempt(npudoctor_attempt.import_torch)
