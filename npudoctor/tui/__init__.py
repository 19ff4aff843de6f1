"""The terminal interface: screens and widgets over what `npudoctor.views` says."""
