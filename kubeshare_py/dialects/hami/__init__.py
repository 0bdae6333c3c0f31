"""HAMi and 4paradigm's vGPU scheduler: their names, the texts that they write, their meaning."""
