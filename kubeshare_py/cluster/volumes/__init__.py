"""Where the claims and disks of pods can be mounted, by storage objects and placed pods."""
