#!/usr/bin/env bash
# One TensorFlow Serving for several exports, in Docker: writes its configuration and tries it.
#
#     bash examples/serving/docker.sh OUT NAME=FOLDER ...
#     bash examples/serving/docker.sh server base=served/base large=served/large
#
# OUT is a new folder: models.config, batching.config and monitoring.config for the server, and
# smoke_test.sh, which starts it with them, asks each model, checks the answers and stops it. Each
# FOLDER holds the versions of a model, as `albert-keras export` writes them.
#
# Time: half a minute, and the download of the image, 0.5 GB. Docker was not there where this was
# written: the script was tried with a stand-in, the files with TensorFlow Serving's own parsers.
set -euo pipefail
out=$1
shift
albert-keras serving-config "$@" --out "$out"
bash "$out/smoke_test.sh"
