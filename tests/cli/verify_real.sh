#!/bin/sh
# verify_real.sh OCHRE MODEL GOLDEN [ochre verify options]: a real model against its golden; 77 (skipped) without the model.
set -u
ochre=$1 model=$2 golden=$3
shift 3
if [ ! -e "$model" ]; then
    echo "SKIPPED: $model is not there; fetch it with tools/fetch-model"
    exit 77
fi
exec "$ochre" verify "$model" --against "$golden" "$@"
