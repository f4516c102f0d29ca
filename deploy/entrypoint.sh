#!/bin/sh
# What the image runs: aclog with the arguments given. Without any it serves the log that ACLOG_LOG_URL names; where
# that is not set either, it says what a first use needs.
set -eu

if [ $# -eq 0 ]; then
    if [ -z "${ACLOG_LOG_URL:-}" ]; then
        cat >&2 <<'USAGE'
aclog: no log is named, so there is nothing to serve. Name one in either of these ways.

A directory, such as a broker's own __cluster_metadata-0, mounted; here it is asked once, then served:

    docker run --rm --volume DIRECTORY:/log:ro IMAGE \
        check --log file:/log --principal User:alice --operation Read --topic orders --explain
    docker run --name aclog --volume DIRECTORY:/log:ro --env ACLOG_LOG_URL=file:/log --env ACLOG_LOG_MODE=read IMAGE

A topic, with snapshots on a volume:

    docker run --name aclog --env ACLOG_LOG_URL=kafka://BROKER:9092/TOPIC \
        --volume aclog:/var/lib/aclog/snapshots --env ACLOG_SNAPSHOT_STORE=/var/lib/aclog/snapshots IMAGE

Settings: --volume FILE:/server.properties:ro and --config /server.properties after `serve`, or ACLOG_... variables.
It runs as user 10001, who must be able to read what is mounted (or add --user). It serves on loopback only: clients
share its network, as in a pod: docker run --network container:aclog ...

    docker run --rm IMAGE --help
USAGE
        exit 2
    fi
    set -- serve
fi
exec aclog "$@"
