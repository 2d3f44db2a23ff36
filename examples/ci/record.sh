#!/usr/bin/env bash
# Records what a command sends, and ends with the command's exit code:
#
#     record.sh run.otlp python -m my_agent.cases
#
# The command is given OTEL_EXPORTER_OTLP_ENDPOINT; its spans have to be flushed before it ends. HTTP_PORT (4318) and
# GRPC_PORT (4317) are where they are received.
set -u
file=$1
shift
http=${HTTP_PORT:-4318}
toolgauge record --force -o "$file" \
    --set "receivers.otlp.protocols.http.endpoint=localhost:$http" \
    --set "receivers.otlp.protocols.grpc.endpoint=localhost:${GRPC_PORT:-4317}" &
recorder=$!
until (: >"/dev/tcp/localhost/$http") 2>/dev/null; do
    kill -0 "$recorder" 2>/dev/null || exit 1
    sleep 0.2
done
OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:$http OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf "$@"
code=$?
kill -TERM "$recorder"
wait "$recorder" || exit 1
exit "$code"
