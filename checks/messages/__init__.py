"""What the checks say, one module a subject: `Message` for a finding, `Sentence` for every other text."""
