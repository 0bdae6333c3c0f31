#!/bin/sh
# Stands for nvidia-cuda-mps-control: a daemon with -f, else one who tells it something. What it was
# started with, and that it was told to end, is in its log folder.
set -eu
pipe="$CUDA_MPS_PIPE_DIRECTORY/control"
if [ "$#" -eq 0 ]; then
    read -r word
    [ -p "$pipe" ] || exit 1
    echo "$word" > "$pipe"
    exit 0
fi
log="$CUDA_MPS_LOG_DIRECTORY/control.log"
rm -f "$pipe"
mkfifo "$pipe"
echo "shm" > "/dev/shm/$CUDA_VISIBLE_DEVICES"
echo "$* $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY" >> "$log"
word=
while [ "$word" != quit ]; do
    read -r word < "$pipe" || word=
done
echo "told to $word" >> "$log"
