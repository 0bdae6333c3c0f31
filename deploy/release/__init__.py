"""What a release consists of, built from one checkout so that two builds are equal to the byte."""
