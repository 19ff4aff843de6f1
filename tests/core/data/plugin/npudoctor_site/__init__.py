"""What our site adds to npudoctor."""
