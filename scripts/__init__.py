"""The commands of this project that are not part of the package."""
